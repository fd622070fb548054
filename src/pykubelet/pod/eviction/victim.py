"""What is done about a node that runs short: what is cleared away first, which pod goes, and what is said of it."""

from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE, MEMORY
from pykubelet.pod.eviction.eviction import AT_ONCE, Eviction
from pykubelet.pod.eviction.ranking import eviction_message, ranked
from pykubelet.pod.eviction.thresholds import SIGNALS, Observation, Threshold
from pykubelet.pod.stats.stats import PodReading

_IN_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)


def clears_first(signal: str, *, own_image_disk: bool) -> bool:
    """Whether dead containers and unused images are cleared away before a pod has to go: they are on the disk that
    runs full."""
    is_disk = SIGNALS[signal][1] == "DiskPressure"
    return is_disk and not (own_image_disk and signal.startswith("nodefs."))


def victim(
    threshold: Threshold,
    observed: Observation,
    pods: Iterable[Pod],
    used: Mapping[str, PodReading],
    *,
    own_image_disk: bool,
    longest_grace: int,
) -> tuple[Pod, Eviction] | None:
    """The one that goes next. Critical pods are spared, static ones among them: nothing would start those again."""
    order = ranked(threshold.signal, pods, used, own_image_disk=own_image_disk)
    pod = next((each for each in order if not is_critical(each)), None)
    if pod is None:
        return None
    resource = SIGNALS[threshold.signal][0]
    available = Quantity.of(observed.available, "BinarySI" if resource in _IN_BYTES else "DecimalSI")
    message, annotations = eviction_message(
        resource, pod, used.get(pod.metadata.uid), threshold.least.of(observed.capacity), available
    )
    grace = AT_ONCE if threshold.is_hard else _soft_grace(pod, longest_grace)
    return pod, Eviction(threshold.signal, message, grace, annotations, is_disruption=True)


def _soft_grace(pod: Pod, longest: int) -> int:
    own = pod.spec.termination_grace_period_seconds
    return max(longest if own is None else min(own, longest), AT_ONCE)
