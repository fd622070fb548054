"""A node agent on fakes that is recorded, and a session with everything going wrong that may."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kit.node import Running, World
from kit.pod_api import MemoryPods
from kit.pod_objects import MemoryObjects
from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.env import EnvFromSource, EnvVar, EnvVarSource, SecretEnvSource, SecretKeySelector
from pykubelet.api.handlers import ExecAction, HTTPGetAction, HTTPHeader, Lifecycle, LifecycleHandler, Probe
from pykubelet.api.meta import LocalObjectReference, ObjectMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, Retry
from pykubelet.node.probes import quoted
from pykubelet.node.recording.live import RecordedAgent
from pykubelet.pod.ports.probing import Answer, Verdict

PLANTED = {
    "env of a secret": "Pl4nted-from-a-secret",
    "all of a secret": "Pl4nted-whole",
    "pull password": "Pl4nted-pull-pass",
    "plain variable": "Pl4nted-plain-value",
    "argument": "--password=Pl4nted-argument",
    "header": "Bearer Pl4nted-header",
    "annotation": "Pl4nted-annotation",
    "last applied": '{"spec":"Pl4nted-last-applied"}',
    "probe command": "echo \"Pl4nted-probe-word\" || echo 'not'",
    "config map": "Pl4nted-config",
}
"""What must never be in a recording."""


class Lines:
    """Where a recording goes."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.all: list[bytes] = []
        self._left = limit

    def write(self, line: bytes) -> bool:
        self.all.append(line)
        self._left -= len(line)
        return self._left > 0


@asynccontextmanager
async def recorded(world: World, lines: Lines) -> AsyncIterator[Running]:
    """As `World.agent`, recorded."""
    agent = RecordedAgent(world.outside(), lines)
    living = await agent.made()
    running = asyncio.create_task(agent.run())
    try:
        yield Running(living)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


class MoodyContainers:
    """Probes that mostly go well. What they say holds what a program should not have said."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def attempt(self, probe: Probe, container: Container, container_id: str, pod_ip: str) -> Answer:
        await asyncio.sleep(self._chance.random() * 0.3)
        if self._chance.random() < 0.8:
            return Answer(Verdict.SUCCESS, "fine")
        if self._chance.random() < 0.2:
            return Answer(Verdict.UNKNOWN, "no answer", is_error=True)
        if probe.exec is not None:
            return Answer(Verdict.FAILURE, f"command timed out: {quoted(' '.join(probe.exec.command))} timed out")
        return Answer(Verdict.FAILURE, f"cannot log in with {PLANTED['env of a secret']}")

    async def close(self) -> None:
        pass


def secret_pod(name: str, **spec: object) -> Pod:
    """A pod with what people put into pods that is nobody else's business."""
    reference = SecretKeySelector(name="login", key="password")
    headers = (HTTPHeader(name="Authorization", value=PLANTED["header"]),)
    container = Container(
        name="c",
        image=f"registry.example/app:{sum(name.encode()) % 5}",
        command=("app", PLANTED["argument"]),
        args=("$(PASSWORD)", PLANTED["argument"]),
        env_from=(EnvFromSource(secret_ref=SecretEnvSource(name="whole")),),
        env=(
            EnvVar(name="PASSWORD", value_from=EnvVarSource(secret_key_ref=reference)),
            EnvVar(name="PLAIN", value=PLANTED["plain variable"]),
            EnvVar(name="BOTH", value="$(PASSWORD)!"),
        ),
        readiness_probe=Probe(http_get=HTTPGetAction(port=80, http_headers=headers), period_seconds=2),
        liveness_probe=Probe(exec=ExecAction(command=("ask", PLANTED["probe command"])), period_seconds=5),
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=("bye", PLANTED["probe command"])))),
    )
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": PLANTED["last applied"],
        "example.com/note": PLANTED["annotation"],
    }
    pod = make_pod(name, annotations=annotations)
    pulls = (LocalObjectReference(name="registry"),)
    grown = changed(pod.spec, containers=(container,), image_pull_secrets=pulls, termination_grace_period_seconds=5)
    return changed(pod, spec=changed(grown, **spec))


def planted_objects() -> MemoryObjects:
    objects = MemoryObjects()
    account = {"username": "robot", "password": PLANTED["pull password"]}
    login = codec.encode({"auths": {"registry.example": account}})
    objects.secrets = {
        "login": _secret({"password": PLANTED["env of a secret"].encode()}),
        "whole": _secret({"WHOLE": PLANTED["all of a secret"].encode(), "not a name": b"1"}),
        "registry": _secret({".dockerconfigjson": login}, "kubernetes.io/dockerconfigjson"),
    }
    objects.config_maps = {"settings": ConfigMap(data={"KEY": PLANTED["config map"]})}
    return objects


def _secret(data: dict[str, bytes], kind: str = "Opaque") -> Secret:
    return Secret(metadata=ObjectMeta(name="s"), type=kind, data=data)


def _denied() -> NotFound:
    """A registry that repeats what it was told."""
    return NotFound(f"denied for robot:{PLANTED['pull password']}")


class Chaos:
    """Pods that come, crash, fail their probes, change and go, on a runtime and an API server that fail now and then.
    The same for the same seed."""

    def __init__(self, seed: int, pods: int) -> None:
        self._chance = random.Random(seed)
        self._count = pods
        self._api = MemoryPods()
        self._objects = planted_objects()
        self.world = World(self._api)
        self.world.objects = self._objects
        self.world.asking = MoodyContainers(random.Random(seed))
        self.world.runtime.delays = {
            "observe": 0.01, "run_sandbox": 0.2, "create_container": 0.05, "start_container": 0.1,
            "pull_image": 1.5, "pods": 0.03,
        }  # fmt: skip
        self.world.runtime.failures["pull_image"] = [_denied(), _denied()]
        self.world.runtime.exit_codes["bye"] = 1

    async def run(self, lines: Lines, seconds: float) -> None:
        names = [f"p{number}" for number in range(self._count)]
        loop = asyncio.get_running_loop()
        async with recorded(self.world, lines):
            for name in names:
                self._apply(name)
                await asyncio.sleep(self._chance.random() * 0.2)
            while loop.time() < seconds:
                await asyncio.sleep(self._chance.random())
                self._something_happens(self._chance.choice(names))

    def _apply(self, name: str) -> None:
        number = int(name[1:])
        if number % 3 == 0:
            pod = make_pod(name)
            pod = changed(pod, spec=changed(pod.spec, restart_policy=self._chance.choice(["Always", "Never"])))
        else:
            pod = secret_pod(name, restart_policy="Always" if number % 3 == 1 else "OnFailure")
        self.world.pods.apply(self._api.put(pod))

    def _something_happens(self, name: str) -> None:
        uid, runtime = f"uid-{name}", self.world.runtime
        match self._chance.randrange(10):
            case 0 | 1 | 2:
                runtime.exit(uid, "c", self._chance.choice([0, 1, 137]), reason=self._chance.choice(["", "OOMKilled"]))
            case 3:
                self._objects.changed.put_nowait(frozenset({uid, "uid-p1", "uid-p2"}))
            case 4:
                method = self._chance.choice(["observe", "run_sandbox", "create_container", "start_container", "pods"])
                runtime.failures[method].append(Retry("the runtime is busy", after=0.5))
            case 5:
                runtime.failures["pull_image"].append(_denied())
            case 6:
                runtime.lose_sandbox(uid)
            case 7:
                self._api.faults.append(Retry("the API server is away"))
                self.world.host.failures.setdefault("set_up", []).append(Retry("the disk is slow"))
            case 8 if ("default", name) in self._api.pods:
                self.world.pods.apply(self._api.ask_to_delete(name))
            case 9:
                self.world.pods.remove(uid)
                self._api.pods.pop(("default", name), None)
            case _:
                self._apply(name)
