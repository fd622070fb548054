"""Twenty-odd broken pods: each as its status and its moments show it, with the first line that people are to read."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.base.journal import About, Noted
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.probe_results import Result
from pykubelet.pod.story.diagnosis import NodeTrouble

NOW = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
WHOSE = About("u1", "default", "web")
NO_TROUBLE = NodeTrouble()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def noted(moment: m.Moment, seconds_ago: float = 1.0) -> m.Noted:
    return Noted(ago(seconds_ago), WHOSE, moment)


def pod(*, status: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    one = {"name": "app", "image": "busybox:1.36", **(container or {})}
    return codec.convert(
        Pod,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
            "spec": {"nodeName": "n1", "restartPolicy": "Always", "containers": [one], **spec},
            "status": {"phase": "Pending", **(status or {})},
        },
    )


def one_status(state: dict[str, Any], *, last: dict[str, Any] | None = None, restarts: int = 0, **more: Any) -> Any:
    status = {"name": "app", "ready": False, "restartCount": restarts, "image": "", "imageID": "", "state": state}
    return [{**status, "lastState": last or {}, **more}]


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"containerStatuses": one_status({"waiting": {"reason": reason, "message": message}}, **more)}


def crashing(code: int, reason: str = "Error", restarts: int = 3, message: str = "") -> dict[str, Any]:
    ended = {"exitCode": code, "reason": reason, "message": message}
    ended |= {"startedAt": "2026-01-02T15:03:40Z", "finishedAt": "2026-01-02T15:03:43Z"}
    text = "back-off 1m0s restarting failed container=app pod=web_default(u1)"
    return {"phase": "Running", **waiting("CrashLoopBackOff", text, last={"terminated": ended}, restarts=restarts)}


RUNNING = {"running": {"startedAt": "2026-01-02T15:03:05Z"}}


class Case(NamedTuple):
    name: str
    pod: Pod
    moments: tuple[m.Noted, ...]
    state: str
    code: str
    line: str
    last_words: str = ""
    trouble: NodeTrouble = NO_TROUBLE
    names: dict[str, Any] = {}
    """What programs find in the cause beside its code."""


def back_off(image: str, seconds: float) -> m.Noted:
    return noted(m.BackedOff("app", NOW + timedelta(seconds=seconds), image))


def unscheduled(message: str, reason: str = "Unschedulable") -> Pod:
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod(status={"conditions": [said]}, nodeName="")


def _pulling(message: str) -> dict[str, Any]:
    return waiting("ImagePullBackOff", f'Back-off pulling image "r/x:1": ErrImagePull: {message}')


def _image(**more: Any) -> Pod:
    status = more.pop("status")
    return pod(container={"image": "r/x:1"}, status=status, **more)


_PROBE = {"httpGet": {"path": "/", "port": 80}}
_KILLED = noted(m.ContainerStopping("app", 30, "Container app failed liveness probe, will be restarted"), 70)
_EXITED = noted(m.Exited("app", 1, 137, "Error", ago(90), ago(60)), 60)

CASES = (
    Case(
        "missing image",
        _image(status=_pulling("r/x: 1 is not there (NAME_UNKNOWN: repository name not known to registry)")),
        (back_off("r/x:1", 38),),
        "Waiting",
        "ImageNotFound",
        "web waits for image r/x:1 of container app, which its registry does not have; next pull in 38 s.",
        names={"container": "app", "image": "r/x:1"},
    ),
    Case(
        "wrong tag",
        _image(status=_pulling("r/x: 1 is not there (MANIFEST_UNKNOWN: manifest unknown)")),
        (back_off("r/x:1", 38),),
        "Waiting",
        "TagNotFound",
        "web waits for image r/x:1 of container app: its registry has nothing of that name and tag; next pull in 38 s.",
        names={"container": "app", "image": "r/x:1"},
    ),
    Case(
        "private image without a secret",
        _image(status=_pulling("r/x: pull access is denied to who shows no credentials")),
        (back_off("r/x:1", 0.5),),
        "Waiting",
        "ImageDenied",
        "web may not pull image r/x:1 of container app: the registry asks who it is, and the pod has no pull secret; "
        "next pull now.",
        names={"hasSecret": False},
    ),
    Case(
        "private image with the wrong secret",
        _image(status=_pulling("401 Unauthorized"), imagePullSecrets=[{"name": "mine"}]),
        (back_off("r/x:1", 300),),
        "Waiting",
        "ImageDenied",
        "web may not pull image r/x:1 of container app: the registry asks who it is, and its pull secrets are not "
        "accepted; next pull in 5m.",
        names={"hasSecret": True},
    ),
    Case(
        "registry out of reach",
        _image(status=_pulling("dial tcp 10.0.0.1:443: connect: connection refused")),
        (back_off("r/x:1", 20),),
        "Waiting",
        "RegistryUnreachable",
        "web waits for image r/x:1 of container app, whose registry cannot be reached; next pull in 20 s.",
    ),
    Case(
        "image never pulled",
        _image(status=waiting("ErrImageNeverPull", "Container image is not present with pull policy of Never")),
        (),
        "Waiting",
        "ImageNeverPulled",
        "web waits for image r/x:1 of container app, which is not on the node and is never to be pulled; it stays so "
        "until the image is on the node.",
    ),
    Case(
        "missing config map",
        pod(status=waiting("CreateContainerConfigError", 'configmap "app-config" not found')),
        (),
        "Waiting",
        "ObjectNotFound",
        "web waits for ConfigMap default/app-config, which does not exist; it starts by itself when it appears.",
        names={"kind": "ConfigMap", "namespace": "default", "name": "app-config"},
    ),
    Case(
        "missing secret of a volume",
        pod(status=waiting("ContainerCreating")),
        (noted(m.Awaiting("secret", "tls", 'MountVolume.SetUp failed for volume "v" : secret "tls" not found')),),
        "Waiting",
        "ObjectNotFound",
        "web waits for Secret default/tls, which does not exist; it starts by itself when it appears.",
        names={"kind": "Secret", "name": "tls"},
    ),
    Case(
        "missing key",
        pod(status=waiting("CreateContainerConfigError", "couldn't find key mode in ConfigMap default/app-config")),
        (),
        "Waiting",
        "KeyNotFound",
        "web waits for key mode of ConfigMap default/app-config, which the ConfigMap does not have; it "
        "starts by itself "
        "when it appears.",
        names={"kind": "ConfigMap", "name": "app-config", "key": "mode"},
    ),
    Case(
        "failing init",
        pod(
            initContainers=[{"name": "prepare", "image": "busybox"}],
            status={
                "initContainerStatuses": [
                    {**crashing(2)["containerStatuses"][0], "name": "prepare"},
                ],
                "containerStatuses": one_status({"waiting": {"reason": "PodInitializing"}}),
            },
        ),
        (noted(m.BackedOff("prepare", NOW + timedelta(seconds=38))),),
        "Failing",
        "Crashed",
        "web keeps crashing: init container prepare exited 4 times with code 2; last words: `no such table: users`; "
        "next start in 38 s.",
        last_words="migrating\nno such table: users\n",
        names={"container": "prepare", "isInit": True, "exitCode": 2, "times": 4},
    ),
    Case(
        "crash loop with an exception on stderr",
        pod(status=crashing(1)),
        (),
        "Failing",
        "Crashed",
        "web keeps crashing: app exited 4 times with code 1; last words: `KeyError: 'DATABASE_URL'`; next "
        "start in 38 s.",
        last_words="Traceback (most recent call last):\n  File \"app.py\", line 3\nKeyError: 'DATABASE_URL'\n",
        names={"container": "app", "exitCode": 1, "times": 4, "lastWords": "KeyError: 'DATABASE_URL'"},
    ),
    Case(
        "out of memory",
        pod(status=crashing(137, "OOMKilled", restarts=2), container={"resources": {"limits": {"memory": "64Mi"}}}),
        (),
        "Failing",
        "OutOfMemory",
        "web keeps crashing: app exited 3 times with code 137 (OOMKilled: limit 64Mi); last words: `MemoryError`; "
        "next start in 38 s.",
        last_words="MemoryError\n",
        names={"limit": "64Mi", "times": 3, "exitCode": 137},
    ),
    Case(
        "failing liveness",
        pod(
            status={"phase": "Running", "containerStatuses": one_status(RUNNING, restarts=2)},
            container={"livenessProbe": _PROBE},
        ),
        (
            noted(m.ContainerStarted("app", "container", 1), 100),
            noted(
                m.EventRecorded(
                    "Warning", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500"
                ),
                75,
            ),
            _KILLED,
            _EXITED,
            noted(m.ContainerStarted("app", "container", 2), 60),
        ),
        "Failing",
        "ProbeFailed",
        "web keeps being restarted: the liveness probe of app fails: HTTP probe failed with statuscode: 500, "
        "2 times so "
        "far; it runs again, for 60s now.",
        names={"probe": "liveness", "container": "app", "times": 2},
    ),
    Case(
        "failing readiness",
        pod(
            status={"phase": "Running", "containerStatuses": one_status(RUNNING, started=True)},
            container={"readinessProbe": _PROBE},
        ),
        (
            noted(m.ContainerStarted("app", "container", 0), 60),
            noted(m.Probed("readiness", "app", Result.FAILURE, 0.1), 5),
            noted(m.EventRecorded("Warning", "Unhealthy", "Readiness probe failed: connection refused"), 5),
        ),
        "NotReady",
        "ProbeFailed",
        "web runs, but gets no traffic: the readiness probe of app fails: connection refused; it goes on running, and "
        "gets traffic when the probe succeeds.",
        names={"probe": "readiness"},
    ),
    Case(
        "startup probe too short",
        pod(
            status=crashing(137, restarts=1),
            container={"startupProbe": {**_PROBE, "periodSeconds": 2, "failureThreshold": 5}},
        ),
        (
            noted(m.ContainerStarted("app", "container", 1), 100),
            noted(m.ContainerStopping("app", 30, "Container app failed startup probe, will be restarted"), 70),
            noted(m.Exited("app", 1, 137, "Error", ago(90), ago(60)), 60),
        ),
        "Failing",
        "ProbeFailed",
        "web keeps being restarted: app has not started within the 10 s that its startup probe gives it; "
        "next start in 38 s.",
        names={"probe": "startup", "seconds": 10.0},
    ),
    Case(
        "host port taken",
        pod(
            status={"phase": "Failed", "reason": "NodePorts", "message": "Pod was rejected"},
            container={"ports": [{"containerPort": 80, "hostPort": 8080}]},
        ),
        (),
        "Failed",
        "PortTaken",
        "web was turned away: host port 8080 is taken; this pod is not tried again; its controller, if it "
        "has one, makes "
        "another.",
        names={"port": "8080"},
    ),
    Case(
        "port taken inside",
        pod(status=crashing(1)),
        (),
        "Failing",
        "PortTaken",
        "web keeps crashing: app finds port 8080 taken; next start in 38 s.",
        last_words="listen tcp 0.0.0.0:8080: bind: address already in use\n",
        names={"port": "8080", "container": "app"},
    ),
    Case(
        "unmountable volume",
        pod(
            status=waiting(
                "ContainerCreating",
                'MountVolume.SetUp failed for volume "data" : hostPath type check failed: /srv/x is not a directory',
            )
        ),
        (),
        "Waiting",
        "VolumeFailed",
        "web waits for volume data, which cannot be mounted: hostPath type check failed: /srv/x is not a directory; "
        "next try soon.",
        names={"volume": "data"},
    ),
    Case(
        "claim that is not allocated",
        pod(status=waiting("ContainerCreating", "")),
        (noted(m.Awaiting("claim", "gpu", "ResourceClaim gpu: not allocated")),),
        "Waiting",
        "ClaimNotReady",
        "web waits for resource claim gpu: ResourceClaim gpu: not allocated; next try soon.",
        names={"claim": "gpu"},
    ),
    Case(
        "driver that has not come",
        pod(status=waiting("ContainerCreating", "")),
        (noted(m.Awaiting("driver", "gpu.example.com", "DRA driver gpu.example.com is not registered")),),
        "Waiting",
        "DriverAway",
        "web waits for DRA driver gpu.example.com: DRA driver gpu.example.com is not registered; next try soon.",
        names={"driver": "gpu.example.com"},
    ),
    Case(
        "claim that cannot be given back",
        pod(status={"phase": "Failed"}),
        (
            noted(m.PhaseEntered(m.Phase.RELEASING)),
            noted(m.Awaiting("driver", "gpu.example.com", "NodeUnprepareResources: connection refused")),
        ),
        "Waiting",
        "DriverAway",
        "web has ended and waits for DRA driver gpu.example.com: NodeUnprepareResources: connection refused; "
        "then it is let go.",
        names={"driver": "gpu.example.com"},
    ),
    Case(
        "write to a read-only root",
        pod(status=crashing(1)),
        (),
        "Failing",
        "ReadOnlyFileSystem",
        "web keeps crashing: app writes to a read-only file system and exited 4 times with code 1; last words: "
        "`sh: can't create /x: Read-only file system`; next start in 38 s.",
        last_words="sh: can't create /x: Read-only file system\n",
    ),
    Case(
        "wrong command",
        pod(
            container={"command": ["/bin/nope"]},
            status=crashing(128, "StartError", message='exec: "/bin/nope": no such file or directory'),
        ),
        (),
        "Waiting",
        "CommandNotFound",
        'web cannot run /bin/nope in container app: exec: "/bin/nope": no such file or directory; next start in 38 s.',
        names={"command": "/bin/nope"},
    ),
    Case(
        "wrong user",
        pod(status=waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")),
        (),
        "Waiting",
        "WrongUser",
        "web cannot start container app as the user it should be: container has runAsNonRoot and image will run as "
        "root; next try soon.",
    ),
    Case(
        "user without rights",
        pod(status=crashing(1), container={"securityContext": {"runAsUser": 1000}}),
        (),
        "Failing",
        "PermissionDenied",
        "web keeps crashing: app is denied permission as user 1000 and exited 4 times with code 1; last words: "
        "`cat: can't open '/etc/shadow': Permission denied`; next start in 38 s.",
        last_words="cat: can't open '/etc/shadow': Permission denied",
        names={"user": 1000},
    ),
    Case(
        "no room on any node",
        unscheduled("0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available."),
        (),
        "Unscheduled",
        "NoRoom",
        "web has no node: none has enough cpu; it starts when there is room on a node.",
        names={"resources": ["cpu"]},
    ),
    Case(
        "no devices on any node",
        unscheduled("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: ..."),
        (),
        "Unscheduled",
        "NoDevices",
        "web has no node: none has the devices that it claims, and free; it starts when its claims have their devices.",
    ),
    Case(
        "claim that is missing",
        unscheduled('0/1 nodes are available: resourceclaim "gpus" not found.'),
        (),
        "Unscheduled",
        "NoDevices",
        "web has no node: there is no resource claim gpus, which it needs; it starts when its claims have their "
        "devices.",
        names={"claim": "gpus"},
    ),
    Case(
        "device class that is missing",
        unscheduled("0/1 nodes are available: request r/big: device class gpu.example.com does not exist."),
        (),
        "Unscheduled",
        "NoDevices",
        "web has no node: there is no device class gpu.example.com, which it needs; it starts when its claims have "
        "their devices.",
        names={"deviceClass": "gpu.example.com"},
    ),
    Case(
        "claim that makes no sense",
        unscheduled('running "DynamicResources" filter plugin: claim default/a: selector #0: CEL runtime error: no'),
        (),
        "Unscheduled",
        "NoDevices",
        'web has no node: running "DynamicResources" filter plugin: claim default/a: selector #0: CEL runtime error: '
        "no; it starts when its claims have their devices.",
    ),
    Case(
        "no room on the node",
        pod(status={"phase": "Failed", "reason": "OutOfmemory", "message": "Node didn't have enough resource: memory"}),
        (),
        "Failed",
        "NoRoom",
        "web was turned away by n1: not enough memory; this pod is not tried again; its controller, if it "
        "has one, makes "
        "another.",
        names={"resources": ["memory"], "node": "n1"},
    ),
    Case(
        "taint",
        unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}. preemption: ..."),
        (),
        "Unscheduled",
        "UntoleratedTaint",
        "web has no node: it does not tolerate the taint dedicated: gpu of the nodes; it starts when the "
        "taint goes or it "
        "tolerates it.",
        names={"taints": ["dedicated: gpu"]},
    ),
    Case(
        "image pull slow",
        pod(status=waiting("ContainerCreating")),
        (noted(m.PullProgressed("big:1", 90.0), 5),),
        "Waiting",
        "PullSlow",
        "web is pulling image big:1, for 95s now; it starts when the image is here.",
        names={"image": "big:1"},
    ),
    Case(
        "runtime down",
        pod(status=waiting("ContainerCreating")),
        (),
        "Starting",
        "RuntimeDown",
        "web is on a node whose container runtime does not answer for 65s: connection refused; the agent tries again "
        "all the time, and what runs goes on.",
        trouble=NodeTrouble(runtime="connection refused", runtime_since=ago(65)),
    ),
    Case(
        "API server away",
        pod(status={"phase": "Running", "containerStatuses": one_status(RUNNING, ready=True)}),
        (),
        "Running",
        "ApiServerAway",
        "web is on a node that cannot reach the API server for 65s; what runs goes on, and what is shown elsewhere is "
        "old until it is back.",
        trouble=NodeTrouble(api="connection refused", api_since=ago(65)),
    ),
    Case(
        "evicted",
        pod(status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
        (),
        "Failed",
        "Evicted",
        "web was evicted: The node was low on resource: memory; this pod is not tried again; its controller, if it has "
        "one, makes another.",
    ),
)
