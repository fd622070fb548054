"""How many pods there are, and how far they are: what a node shows of itself when it is counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.resize.conditions import IN_PROGRESS, PENDING

Lifecycle = Literal["sync", "terminating", "terminated"]
LIFECYCLES: Final[tuple[Lifecycle, ...]] = ("sync", "terminating", "terminated")
_CONFIGS: Final = (
    *(("desired", ""), ("desired", "true")),
    *(("orphan", ""), ("orphan", "true")),
    ("runtime_only", "unknown"),
)


class Working(NamedTuple):
    """A pod that has a worker."""

    pod: Pod
    lifecycle: Lifecycle


class Census(Struct, frozen=True, kw_only=True):
    """Everything is there, also what counts zero. Static pods are `true`, others the empty word, as upstream labels
    them."""

    desired: Mapping[str, int]
    active: Mapping[str, int]
    mirrors: int
    working: Mapping[tuple[str, str, str], int]
    """By lifecycle; desired, orphan (no source has it any more) or runtime_only (none ever had); and static."""
    ephemeral_containers: int
    running_pods: int
    containers: Mapping[str, int]
    """By state."""
    lateness: float
    """For how many seconds the sync loop has not come round."""
    pending_resizes: Mapping[str, int] = {}
    """By reason, in small letters."""
    resizes_in_progress: int = 0


def census(
    *,
    desired: Iterable[Pod],
    active: Iterable[Pod],
    mirrors: int,
    working: Iterable[Working],
    seen: Iterable[ObservedPod],
    lateness: float,
    resizing: Iterable[PodCondition] = (),
) -> Census:
    """`desired` are the pods of all sources, `seen` those that the runtime was last seen to hold, `resizing` what is
    said of those that ask for another size."""
    resizing = tuple(resizing)
    desired, seen = tuple(desired), tuple(seen)
    wanted = {pod.metadata.uid for pod in desired}
    counts = Counter((each.lifecycle, *_config(each.pod, wanted)) for each in working)
    states = Counter(container.state for pod in seen for container in pod.containers)
    return Census(
        desired=_by_static(desired),
        active=_by_static(active),
        mirrors=mirrors,
        working={(lifecycle, *config): counts[lifecycle, *config] for lifecycle in LIFECYCLES for config in _CONFIGS},
        ephemeral_containers=sum(len(pod.spec.ephemeral_containers) for pod in desired),
        running_pods=sum(any(sandbox.ready for sandbox in pod.sandboxes) for pod in seen),
        containers={state.value: states[state] for state in State},
        lateness=lateness,
        pending_resizes=Counter(each.reason.lower() for each in resizing if each.type == PENDING),
        resizes_in_progress=sum(each.type == IN_PROGRESS for each in resizing),
    )


def _config(pod: Pod, wanted: set[str]) -> tuple[str, str]:
    if not pod.spec.containers:
        return "runtime_only", "unknown"
    return "desired" if pod.metadata.uid in wanted else "orphan", _static(pod)


def _by_static(pods: Iterable[Pod]) -> Mapping[str, int]:
    counts = Counter(map(_static, pods))
    return {static: counts[static] for static in ("", "true")}


def _static(pod: Pod) -> str:
    return "true" if is_static(pod) else ""
