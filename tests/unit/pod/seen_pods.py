"""Pods and what a runtime holds of them, in one line each: for the tests of decisions."""

from collections.abc import Iterable
from datetime import UTC, datetime

from pykubelet.api.container import Container, EphemeralContainer
from pykubelet.api.handlers import Probe
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State

IMAGE = "busybox:1.36"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def container(name: str, *, startup: Probe | None = None, liveness: Probe | None = None) -> Container:
    return Container(name=name, image=IMAGE, startup_probe=startup, liveness_probe=liveness)


def sidecar(name: str, *, startup: Probe | None = None, liveness: Probe | None = None) -> Container:
    return Container(name=name, image=IMAGE, restart_policy="Always", startup_probe=startup, liveness_probe=liveness)


def pod(
    *main: Container | str,
    init: Iterable[Container | str] = (),
    ephemeral: Iterable[str] = (),
    restart: str = "Always",
    host_network: bool | None = None,
    grace: int | None = None,
    deletion_grace: int | None = None,
    deleted: bool = False,
) -> Pod:
    """A pod with these containers; a name alone makes a plain one."""
    return Pod(
        metadata=ObjectMeta(
            name="web",
            namespace="default",
            uid="uid-web",
            deletion_timestamp=NOON if deleted else None,
            deletion_grace_period_seconds=deletion_grace,
        ),
        spec=PodSpec(
            init_containers=tuple(map(_made, init)),
            containers=tuple(map(_made, main)),
            ephemeral_containers=tuple(EphemeralContainer(name=name, image=IMAGE) for name in ephemeral),
            restart_policy=restart,
            host_network=host_network,
            termination_grace_period_seconds=grace,
        ),
    )


def _made(given: Container | str) -> Container:
    return container(given) if isinstance(given, str) else given


def seen(
    name: str,
    state: State,
    *,
    exit_code: int = 0,
    reason: str = "",
    changed: bool = False,
    attempt: int = 0,
    finished_at: datetime | None = None,
    grace_seconds: int | None = None,
) -> ObservedContainer:
    """A container with the id `id-<name>`; `changed`: it was made from another spec than today's."""
    return ObservedContainer(
        id=f"id-{name}",
        name=name,
        state=state,
        exit_code=exit_code,
        reason=reason,
        attempt=attempt,
        hash="other" if changed else container_hash(container(name)),
        finished_at=finished_at,
        grace_seconds=grace_seconds,
    )


def running(name: str, *, changed: bool = False) -> ObservedContainer:
    return seen(name, State.RUNNING, changed=changed)


def exited(name: str, exit_code: int = 0, *, reason: str = "") -> ObservedContainer:
    return seen(name, State.EXITED, exit_code=exit_code, reason=reason)


def created(name: str) -> ObservedContainer:
    return seen(name, State.CREATED)


def unknown(name: str) -> ObservedContainer:
    return seen(name, State.UNKNOWN)


def sandbox(
    id: str = "sb", *, ready: bool = True, attempt: int = 0, ip: str = "10.0.0.1", host_network: bool = False
) -> ObservedSandbox:
    return ObservedSandbox(id=id, ready=ready, attempt=attempt, ips=(ip,) if ip else (), host_network=host_network)


def observed(*containers: ObservedContainer, sandboxes: Iterable[ObservedSandbox] = (sandbox(),)) -> ObservedPod:
    return ObservedPod(uid="uid-web", containers=containers, sandboxes=tuple(sandboxes))
