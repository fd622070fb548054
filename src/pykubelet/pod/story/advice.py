"""What happens next and what somebody may try, by cause."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, assert_never

from msgspec import Struct

from pykubelet.api.durations import span
from pykubelet.pod.story import causes as c
from pykubelet.pod.story.texts import is_binding

By = str
"""Why it changes: `time` alone, an `object` that appears, a `change` to the pod, the `node`, a `probe`; `never`."""


class Next(Struct, frozen=True, rename="camel", omit_defaults=True):
    by: By
    what: str
    """Ends the sentence."""
    at: datetime | None = None


_NOT_AGAIN: Final = Next("never", "this pod is not tried again; its controller, if it has one, makes another")
_STEPS: Final[Mapping[type[c.Cause], Next]] = {
    c.ObjectNotFound: Next("object", "it starts by itself when it appears"),
    c.KeyNotFound: Next("object", "it starts by itself when it appears"),
    c.ImageNeverPulled: Next("change", "it stays so until the image is on the node"),
    c.InvalidImageName: Next("change", "it stays so until the pod is changed"),
    c.PullSlow: Next("time", "it starts when the image is here"),
    c.NoDevices: Next("node", "it starts when its claims have their devices"),
    c.UntoleratedTaint: Next("node", "it starts when the taint goes or it tolerates it"),
    c.NotScheduled: Next("node", "it starts when a scheduler has found a node for it"),
    c.SchedulingGated: Next("change", "it is scheduled when they are removed"),
    c.ReadinessGate: Next("probe", "it goes on running, and gets traffic when that is done"),
    c.RuntimeDown: Next("node", "the agent tries again all the time, and what runs goes on"),
    c.ApiServerAway: Next("node", "what runs goes on, and what is shown elsewhere is old until it is back"),
    c.AgentDown: Next("node", "what runs goes on, and nothing is started again until it is back"),
    c.Rejected: _NOT_AGAIN,
    c.Evicted: _NOT_AGAIN,
    c.Preempted: _NOT_AGAIN,
    c.DeadlineExceeded: Next("never", "this pod is not started again"),
    c.Failed: Next("never", "this pod is not started again"),
}
_PULLED: Final = (c.ImageNotFound, c.TagNotFound, c.ImageDenied, c.RegistryUnreachable, c.ImagePullFailed)
_WITHOUT_REGISTRY: Final = (
    "without a container runtime: `pykubelet image import FILE` takes what `docker save` writes, and",
    "image: host runs this machine's programs",
)
_TRIED: Final = (
    *(c.VolumeFailed, c.ClaimNotReady, c.DriverAway, c.NetworkNotReady, c.SandboxFailed),
    *(c.ContainerNotMade, c.HookFailed, c.WrongUser),
)


def next_step(
    cause: c.Cause, until: datetime | None, now: datetime, *, restarts: bool, runs_since: datetime | None = None
) -> Next:
    """`until`: before then nothing is tried. `restarts`: whether its containers are started again. `runs_since`: it has
    been already. All that has no step of its own in the table is a container that has ended."""
    if (found := _STEPS.get(type(cause))) is not None:
        return found
    if isinstance(cause, _PULLED):
        return Next("time", f"next pull {_when(until, now)}", until)
    if isinstance(cause, _TRIED):
        return Next("time", f"next try {_when(until, now)}", until)
    match cause:
        case c.NoRoom(node=""):
            return Next("node", "it starts when there is room on a node")
        case c.PortTaken(container="") | c.NoRoom():
            return _NOT_AGAIN
        case c.ProbeFailed(is_ending=True) if restarts and until is not None:
            seconds = max(0, int((until - now).total_seconds()))
            return Next("time", f"it is started again when it has ended, {seconds} s from now at the latest", until)
        case c.ProbeFailed(is_ending=True):
            return Next("never", "it is not started again (restartPolicy)")
        case c.ProbeFailed(probe="readiness"):
            return Next("probe", "it goes on running, and gets traffic when the probe succeeds")
        case _:
            pass
    if runs_since is not None:
        return Next("time", f"it runs again, for {span(max(0.0, (now - runs_since).total_seconds()))} now")
    if not restarts:
        return Next("never", "it is not started again (restartPolicy)")
    return Next("time", f"next start {_when(until, now)}", until)


def _when(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "soon"
    seconds = (until - now).total_seconds()
    if seconds < 1:
        return "now"
    return f"in {int(seconds)} s" if seconds < 120 else f"in {span(seconds)}"


def advice(cause: c.Cause, pod: str, namespace: str) -> tuple[str, ...]:
    """Commands where there are any: what one would look up anyway. None where there is nothing to do but to wait."""
    match cause:
        case c.ImageNotFound() | c.TagNotFound() | c.ImageDenied() | c.RegistryUnreachable() | c.ImageNeverPulled():
            return _of_image(cause, namespace)
        case c.NoDevices(message=message):
            return _of_devices(message, namespace)
        case c.NoRoom() | c.UntoleratedTaint() | c.RuntimeDown() | c.AgentDown() | c.PortTaken():
            return _of_place(cause)
        case c.ClaimNotReady(claim=claim):
            return (f"kubectl -n {namespace} describe resourceclaim {claim}",)
        case c.DriverAway(driver=driver):
            return (f"look at the pods and the log of driver {driver} on the node: it has to register there",)
        case c.ObjectNotFound(kind=kind, name=name):
            return (f"kubectl -n {namespace} create {kind.lower()} {name} ..., or set optional: true in the pod",)
        case c.KeyNotFound(kind=kind, name=name, key=key):
            return (f"kubectl -n {namespace} get {kind.lower()} {name} -o yaml; add {key}, or use a key that it has",)
        case _:
            return _of_container(cause, f"kubectl -n {namespace} logs {pod}")


def _of_image(
    cause: c.ImageNotFound | c.TagNotFound | c.ImageDenied | c.RegistryUnreachable | c.ImageNeverPulled, namespace: str
) -> tuple[str, ...]:
    match cause:
        case c.ImageNotFound(image=image) | c.TagNotFound(image=image):
            return (f"look at the spelling of {image}, registry, name and tag; or push it there",)
        case c.ImageDenied(has_secret=True):
            return ("look at the secrets in imagePullSecrets: their server has to be the image's registry",)
        case c.ImageDenied():
            return (
                f"kubectl -n {namespace} create secret docker-registry NAME --docker-server=... --docker-username=...",
                "name it in the pod's imagePullSecrets",
                "or look at the spelling: some registries say this of names that they do not know",
            )
        case c.RegistryUnreachable():
            return (
                "try from the node whether the registry answers: name, port, proxy, certificate",
                *_WITHOUT_REGISTRY,
            )
        case c.ImageNeverPulled(image=image):
            return (f"load {image} on the node, or set imagePullPolicy: IfNotPresent", *_WITHOUT_REGISTRY)
        case _:
            assert_never(cause)


def _of_devices(message: str, namespace: str) -> tuple[str, ...]:
    """What is there, and who has it; what is wrong with a claim is in the message."""
    there = "kubectl get deviceclasses,resourceslices", f"kubectl -n {namespace} get resourceclaims"
    return (message, *there) if "DynamicResources" in message else there


def _of_place(cause: c.NoRoom | c.UntoleratedTaint | c.RuntimeDown | c.AgentDown | c.PortTaken) -> tuple[str, ...]:
    match cause:
        case c.NoRoom(resources=resources):
            return (f"lower resources.requests ({', '.join(resources)}), or make room", "kubectl describe nodes")
        case c.UntoleratedTaint(taints=taints):
            return (f"add a toleration for {', '.join(taints) or 'the taint'}, or: kubectl taint nodes NAME KEY-",)
        case c.RuntimeDown():
            return ("on the node: systemctl status containerd, or whatever the runtime is called",)
        case c.AgentDown():
            return ("on the node: pykubelet up, or start the agent's unit",)
        case c.PortTaken(container=""):
            return ("use another hostPort, or none and a Service",)
        case c.PortTaken(container=name, port=port):
            return (
                f"have {name} listen on another port than {port or 'that'}: containers of a pod share their ports",
                "without a container runtime all pods share this machine's: run one of them at a time",
            )
        case _:
            assert_never(cause)


def _of_container(cause: c.Cause, logs: str) -> tuple[str, ...]:
    match cause:
        case c.OutOfMemory(container=name, limit=limit):
            above = f" above {limit}" if limit else ""
            return (
                f"raise resources.limits.memory of {name}{above}, or have it use less",
                f"{logs} -c {name} --previous",
            )
        case c.ReadOnlyFileSystem(container=name):
            return (f"mount an emptyDir where {name} writes, or drop readOnlyRootFilesystem",)
        case c.PermissionDenied(container=name, last_words=words) if is_binding(words):
            return (f"have {name} listen on a port from 1024 on: those below are for root of the machine",)
        case c.PermissionDenied(container=name):
            return (f"set runAsUser or fsGroup so that {name} may read and write its files",)
        case c.WrongUser():
            return ("set runAsUser to a number other than 0, or drop runAsNonRoot",)
        case c.CommandNotFound(container=name):
            return (f"look at command and args of {name}: the file has to be in its image, and executable",)
        case c.ProbeFailed(probe="startup", container=name):
            return ("raise failureThreshold or periodSeconds of the startup probe", f"{logs} -c {name}")
        case c.ProbeFailed(container=name, probe=kind):
            return (f"look at path, port and timeoutSeconds of the {kind} probe of {name}", f"{logs} -c {name}")
        case c.Crashed(container=name) | c.HookFailed(container=name):
            return (f"{logs} -c {name} --previous",)
        case _:
            return ()
