"""What a CRI runtime is asked for, replayed against what the Go kubelet asks for; and what becomes of a pod that the Go
kubelet has started when we take its place: nothing."""

from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message

from kit.vectors import Case, replay, unequal
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.defaults import default_pod
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.pod.container.container_config import container_config
from pykubelet.pod.container.env import Environment
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.lifecycle.plan import PodActions, plan
from pykubelet.pod.lifecycle.probe_results import ProbeResults
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import ContainerConfig, Image, SandboxConfig
from pykubelet.runtime.cri import convert
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.convert import Kernel, Machine
from pykubelet.runtime.cri.observe import observed_container, observed_sandbox
from pykubelet.runtime.cri.security import SecurityDefaults

_MEMORY: Final = 8 << 30
_IDS: Final = IdMapping(host_id=65536, container_id=0, length=65536)
_NO_ENVIRONMENT: Final[Environment] = ()


def test_sandboxes_are_asked_for_as_upstream_does() -> None:
    replay("cri", _sandbox_difference)


def test_containers_are_asked_for_as_upstream_does() -> None:
    replay("cri", _container_differences)


def test_a_pod_that_the_go_kubelet_started_is_left_alone() -> None:
    replay("cri", _swap)


def _sandbox_difference(case: Case) -> str:
    pod = _pod(case)
    recorded = json_format.ParseDict(case["sandbox"], cri.PodSandboxConfig())
    published = [each for each in recorded.port_mappings if each.host_port]  # the others ask for nothing
    del recorded.port_mappings[:]
    recorded.port_mappings.extend(published)
    return _unequal(case["case"], convert.sandbox_config(_sandbox(pod), _machine(case).kernel), recorded)


def _container_differences(case: Case) -> str:
    pod, machine = _pod(case), _machine(case)
    sandbox = convert.sandbox_config(_sandbox(pod), machine.kernel)
    differences = []
    for container in _containers(pod):
        ours = convert.container_config(_asked(case, pod, container), sandbox, machine=machine)
        recorded = json_format.ParseDict(case["containers"][container.name], cri.ContainerConfig())
        differences.append(_unequal(f"{case['case']}, {container.name}", ours, recorded))
    return "\n".join(filter(None, differences))


def _swap(case: Case) -> str:
    """Init containers have ended well, the others run."""
    pod = _pod(case)
    sandbox = json_format.ParseDict(case["sandbox"], cri.PodSandboxConfig())
    there = cri.PodSandboxStatus(
        id="s",
        metadata=sandbox.metadata,
        state=cri.SANDBOX_READY,
        network=cri.PodSandboxNetworkStatus(ip="" if pod.spec.host_network else "10.0.0.1"),
        linux=cri.LinuxPodSandboxStatus(
            namespaces=cri.Namespace(options=sandbox.linux.security_context.namespace_options)
        ),
        labels=sandbox.labels,
        annotations=sandbox.annotations,
    )
    done = {each.name for each in pod.spec.init_containers if not is_sidecar(each)}
    containers = []
    for number, (name, recorded) in enumerate(case["containers"].items()):
        config = json_format.ParseDict(recorded, cri.ContainerConfig())
        status = cri.ContainerStatus(
            id=name,
            metadata=config.metadata,
            state=cri.CONTAINER_EXITED if name in done else cri.CONTAINER_RUNNING,
            created_at=number + 1,
            labels=config.labels,
            annotations=config.annotations,
            image=config.image,
        )
        containers.append(observed_container(status, cri.Container(id=name, pod_sandbox_id="s", image=config.image)))
    observed = ObservedPod(uid=pod.metadata.uid, sandboxes=(observed_sandbox(there),), containers=tuple(containers))
    attempts = {each.name: each.attempt for each in observed.containers}
    return unequal(case["case"], plan(pod, observed, ProbeResults()), PodActions(sandbox_id="s")) or unequal(
        case["case"], attempts, dict.fromkeys(attempts, case["restarts"])
    )


def _pod(case: Case) -> Pod:
    return default_pod(codec.convert(Pod, case["pod"]))


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def _sandbox(pod: Pod) -> SandboxConfig:
    mappings = (_IDS,) if pod.spec.host_users is False else ()
    return sandbox_config(pod, 0, log_root="/var/log/pods", id_mappings=mappings)


def _asked(case: Case, pod: Pod, container: Container) -> ContainerConfig:
    config = container_config(
        pod,
        container,
        case["restarts"],
        image=Image(id=f"sha256:{container.name}"),
        env=_NO_ENVIRONMENT,
        mounts=(),
        memory_capacity=_MEMORY,
    )
    return changed(config, sandbox=_sandbox(pod))


def _machine(case: Case) -> Machine:
    kernel = Kernel(
        unified=case["unified"],
        swap=case["swap"],
        huge_pages=tuple(case["hugePageSizes"]),
        single_process_oom_kill=case["singleProcessOOMKill"],
    )
    return Machine(
        kernel=changed(kernel, cpu_period=0) if case["noQuota"] else kernel,
        security=SecurityDefaults(seccomp_root="/fakeSeccompProfileRoot", seccomp_default=case["seccompDefault"]),
    )


def _unequal(what: str, ours: Message, recorded: Message) -> str:
    mine, theirs = (json_format.MessageToDict(each) for each in (ours, recorded))
    names = sorted({name for name in (*mine, *theirs) if mine.get(name) != theirs.get(name)})
    return "\n".join(unequal(f"{what}: {name}", mine.get(name), theirs.get(name)) for name in names)
