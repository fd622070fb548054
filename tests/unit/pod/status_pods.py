"""Pods, what is seen of them and what was reported of them, in one line each: the words of the status tests."""

from datetime import UTC, datetime
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.pod import ContainerState, ContainerStatus, Pod, PodStatus
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.status.pod_status import NodeFacts, pod_status

NOW: Final = datetime(2025, 6, 1, 12, 30, 15, 999_999, tzinfo=UTC)
SECOND: Final = datetime(2025, 6, 1, 12, 30, 15, tzinfo=UTC)
BEFORE: Final = datetime(2025, 6, 1, 11, tzinfo=UTC)
BEFORE_TEXT: Final = "2025-06-01T11:00:00Z"
NODE: Final = NodeFacts(runtime_name="test")
PROBE: Final = {"exec": {"command": ["true"]}}
SANDBOX: Final = ObservedSandbox(id="sb", ready=True, ips=("10.0.0.10",))


def pod_of(
    *containers: str | dict[str, Any],
    init: tuple[str | dict[str, Any], ...] = (),
    ephemeral: tuple[str, ...] = (),
    policy: str = "Always",
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A container is its name, or its fields. An init container named `side...` is a sidecar."""
    spec = {
        "restartPolicy": policy,
        "containers": [_fields(each) for each in containers or ("c",)],
        "initContainers": [_fields(each) for each in init],
        "ephemeralContainers": [_fields(each) for each in ephemeral],
        **spec,
    }
    meta = {"name": "p", "namespace": "default", "uid": "u", **(metadata or {})}
    return codec.convert(Pod, {"metadata": meta, "spec": spec, "status": status or {}})


def _fields(container: str | dict[str, Any]) -> dict[str, Any]:
    fields = {"name": container} if isinstance(container, str) else container
    return fields | {"restartPolicy": "Always"} if fields["name"].startswith("side") else fields


def seen(name: str, state: str = "running", exit_code: int = 0, attempt: int = 0, **fields: Any) -> ObservedContainer:
    return ObservedContainer(
        id=f"{name}-{attempt}",
        name=name,
        state=State(state),
        attempt=attempt,
        exit_code=exit_code,
        **{"sandbox_id": "sb", "image": "img", "image_id": "img@sha", **fields},
    )


def look(
    pod: Pod,
    *containers: ObservedContainer,
    previous: PodStatus | None = None,
    sandboxes: tuple[ObservedSandbox, ...] = (SANDBOX,),
    now: datetime = NOW,
    node: NodeFacts = NODE,
    **circumstances: Any,
) -> PodStatus:
    """The status of a pod of which these containers are seen."""
    observed = ObservedPod(uid="u", sandboxes=sandboxes, containers=containers)
    return pod_status(pod, observed, pod.status if previous is None else previous, now=now, node=node, **circumstances)


def told(**fields: Any) -> PodStatus:
    """A status by its JSON fields."""
    return codec.convert(PodStatus, fields)


def ran(name: str, state: str = "running", restarts: int = 0, **fields: Any) -> dict[str, Any]:
    """The JSON of a container's status: `running`, `waiting`, or `exited N`."""
    return {"name": name, "state": state_of(state), "lastState": {}, "restartCount": restarts, **fields}


def state_of(text: str) -> dict[str, Any]:
    match text.split():
        case ["running"]:
            return {"running": {"startedAt": BEFORE_TEXT}}
        case ["waiting"]:
            return {"waiting": {"reason": "ContainerCreating"}}
        case ["exited", code]:
            return {"terminated": {"exitCode": int(code), "reason": "Error" if int(code) else "Completed"}}
        case _:
            return {}


def only(status: PodStatus) -> ContainerStatus:
    (container,) = status.container_statuses
    return container


def short(state: ContainerState) -> str:
    """`running`, `waiting REASON`, `exited CODE REASON`, or `-`."""
    if state.running is not None:
        return "running"
    if state.waiting is not None:
        return f"waiting {state.waiting.reason}".rstrip()
    if state.terminated is not None:
        return f"exited {state.terminated.exit_code} {state.terminated.reason}".rstrip()
    return "-"


def value(status: PodStatus, type: str) -> str:
    """`STATUS REASON` of a condition; "" when it is not there."""
    return next((f"{c.status} {c.reason}".rstrip() for c in status.conditions if c.type == type), "")
