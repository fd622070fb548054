"""When a node runs short of something: the thresholds that people set, which of them are met, for how long they have
been, and what the node says of it. Numbers and order are the Go kubelet's."""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.durations import parse_duration
from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE, MEMORY
from pykubelet.api.struct import changed
from pykubelet.pod.stats.stats import Disk, NodeReading

Pressure = Literal["MemoryPressure", "DiskPressure", "PIDPressure"]
"""What a node says when it runs short."""

INODES: Final = "inodes"
PIDS: Final = "pids"
MEMORY_AVAILABLE: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
PID_AVAILABLE: Final = "pid.available"
SIGNALS: Final[Mapping[str, tuple[str, Pressure]]] = {
    MEMORY_AVAILABLE: (MEMORY, "MemoryPressure"),
    ALLOCATABLE_MEMORY: (MEMORY, "MemoryPressure"),
    "nodefs.available": (EPHEMERAL_STORAGE, "DiskPressure"),
    "nodefs.inodesFree": (INODES, "DiskPressure"),
    "imagefs.available": (EPHEMERAL_STORAGE, "DiskPressure"),
    "imagefs.inodesFree": (INODES, "DiskPressure"),
    "containerfs.available": (EPHEMERAL_STORAGE, "DiskPressure"),
    "containerfs.inodesFree": (INODES, "DiskPressure"),
    PID_AVAILABLE: (PIDS, "PIDPressure"),
}
"""By signal: what runs short, and what the node says then."""


class Amount(Struct, frozen=True):
    """So much, or such a share of all there is."""

    quantity: Quantity | None = None
    share: float = 0.0

    def of(self, capacity: int) -> Quantity:
        if self.quantity is not None:
            return self.quantity
        return Quantity.of(int(float(capacity) * self.share), "BinarySI")


class Threshold(Struct, frozen=True, kw_only=True):
    signal: str
    least: Amount
    grace: float = 0.0
    """Seconds for which less than that is borne; 0: not at all."""
    reclaim: Amount | None = None
    """How much more there has to be before it is over."""

    @property
    def is_hard(self) -> bool:
        return self.grace == 0


class EvictionSettings(Struct, frozen=True, kw_only=True):
    """Seconds, where they are times."""

    thresholds: tuple[Threshold, ...] = ()
    transition: float = 300.0
    """For so long a node says that it is short after it was."""
    longest_grace: int = 0
    """What a pod is given that goes for a soft threshold, if it wants more than that."""
    kernel_notice: bool = False
    """Whether the kernel tells when memory runs short, so that nobody waits for the next look."""


class Observation(Struct, frozen=True):
    available: int
    capacity: int


Observations = Mapping[str, Observation]


# --- what people say


def parse_thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    graces: Mapping[str, str],
    reclaims: Mapping[str, str],
    *,
    for_allocatable: bool,
) -> tuple[Threshold, ...]:
    """`for_allocatable`: what all pods together may have is watched as well. Raises ValueError."""
    periods = {_known(signal): _grace(signal, text) for signal, text in graces.items()}
    minimum = {_known(signal): _reclaim(signal, text) for signal, text in reclaims.items()}
    found = [Threshold(signal=signal, least=least) for signal, least in _statements(hard)]
    for signal, least in _statements(soft):
        if signal not in periods:
            raise ValueError(f"grace period must be specified for the soft eviction threshold {signal}")
        found.append(Threshold(signal=signal, least=least, grace=periods[signal]))
    found = [changed(each, reclaim=minimum.get(each.signal)) for each in found]
    if for_allocatable:
        memory = [each for each in found if each.signal == MEMORY_AVAILABLE and each.is_hard]
        found += [changed(each, signal=ALLOCATABLE_MEMORY) for each in memory]
    return tuple(found)


def with_container_disk(thresholds: Iterable[Threshold], *, own_image_disk: bool) -> tuple[Threshold, ...]:
    """Containers write where images are, if these have a disk of their own: what is said of that disk holds for both.
    What was said of theirs does not count."""
    model = "imagefs" if own_image_disk else "nodefs"
    kept = tuple(each for each in thresholds if not each.signal.startswith("containerfs."))
    copies = (each for each in kept if each.signal.startswith(f"{model}."))
    return (*kept, *(changed(each, signal=each.signal.replace(model, "containerfs")) for each in copies))


def _statements(said: Mapping[str, str]) -> Iterable[tuple[str, Amount]]:
    for signal, text in said.items():
        _known(signal)
        if text in ("0%", "100%"):
            continue  # nobody can mean that
        if text.endswith("%"):
            share = _share(text)
            if not 0 <= share <= 1:
                bound = ">= 0%" if share < 0 else "<= 100%"
                raise ValueError(f"eviction percentage threshold {signal} must be {bound}: {text}")
            yield signal, Amount(share=share)
        else:
            quantity = parse_quantity(text)
            if quantity.sign <= 0:
                raise ValueError(f"eviction threshold {signal} must be positive: {quantity}")
            yield signal, Amount(quantity)


def _known(signal: str) -> str:
    if signal not in SIGNALS:
        raise ValueError(f"unsupported eviction signal {signal}")
    return signal


def _grace(signal: str, text: str) -> float:
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return seconds


def _reclaim(signal: str, text: str) -> Amount:
    if text.endswith("%"):
        share = _share(text)
        if share <= 0:
            raise ValueError(f"eviction percentage minimum reclaim {signal} must be positive: {text}")
        return Amount(share=share)
    quantity = parse_quantity(text)
    if quantity.sign < 0:
        raise ValueError(f"negative eviction minimum reclaim specified for {signal}")
    return Amount(quantity)


def _share(text: str) -> float:
    try:
        return _single(_single(float(text.removesuffix("%"))) / 100)
    except ValueError:
        raise ValueError(f"{text!r} is no percentage") from None


def _single(value: float) -> float:
    """As Go's float32 has it, so that the same bytes come out of a percentage."""
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


# --- what is seen


def observations(node: NodeReading) -> dict[str, Observation]:
    """What cannot be seen is left out, and no threshold for it is met."""
    found = {}
    pods = node.system.get("pods")
    for signal, usage in ((MEMORY_AVAILABLE, node.usage), (ALLOCATABLE_MEMORY, pods.usage if pods else None)):
        memory = usage.memory if usage is not None else None
        if memory is not None and (left := memory.available) is not None:
            found[signal] = Observation(left, left + memory.working_set)
    for name, disk in (("nodefs", node.disk), ("imagefs", node.images), ("containerfs", node.images)):
        found |= _of_disk(name, disk) if disk is not None else {}
    if node.max_pid is not None and node.tasks is not None:
        found[PID_AVAILABLE] = Observation(node.max_pid - node.tasks, node.max_pid)
    return found


def _of_disk(name: str, disk: Disk) -> dict[str, Observation]:
    found = {}
    if disk.available is not None and disk.capacity is not None:
        found[f"{name}.available"] = Observation(disk.available, disk.capacity)
    if disk.inodes_free is not None and disk.inodes:  # some file systems do not count them
        found[f"{name}.inodesFree"] = Observation(disk.inodes_free, disk.inodes)
    return found


def thresholds_met(thresholds: Iterable[Threshold], seen: Observations, *, with_reclaim: bool) -> tuple[Threshold, ...]:
    """However long they have been. `with_reclaim`: also those below which there is not as much as is to be won back."""

    def is_met(threshold: Threshold) -> bool:
        observed = seen.get(threshold.signal)
        if observed is None:
            return False
        least = threshold.least.of(observed.capacity)
        if with_reclaim and threshold.reclaim is not None:
            least += threshold.reclaim.of(observed.capacity)
        return least > Quantity.of(observed.available)

    return tuple(filter(is_met, thresholds))


def beyond_capacity(thresholds: Iterable[Threshold], seen: Observations) -> tuple[Threshold, ...]:
    """Those that ask for more than there is in all: no eviction would ever end them."""
    known = ((each, seen[each.signal].capacity) for each in thresholds if each.signal in seen)
    return tuple(each for each, capacity in known if each.least.of(capacity) > Quantity.of(capacity))


class PressureState(Struct, frozen=True, kw_only=True):
    """What is remembered from one look to the next. Times are seconds on one clock."""

    met: tuple[Threshold, ...] = ()
    """Those that have been met for their grace: something has to be done."""
    since: Mapping[Threshold, float] = {}
    last: Mapping[Pressure, float] = {}
    conditions: tuple[Pressure, ...] = ()


def pressure_after(
    state: PressureState, thresholds: Collection[Threshold], seen: Observations, now: float, *, transition: float
) -> PressureState:
    """After one more look. A node stays under pressure until it has been without for `transition` seconds."""
    current = thresholds_met(thresholds, seen, with_reclaim=False)
    current += tuple(each for each in thresholds_met(state.met, seen, with_reclaim=True) if each not in current)
    since = {each: state.since.get(each, now) for each in current}
    last = {**state.last, **{SIGNALS[each.signal][1]: now for each in current}}
    return PressureState(
        met=tuple(each for each, at in since.items() if now - at >= each.grace),
        since=since,
        last=last,
        conditions=tuple(each for each, at in last.items() if now - at < transition),
    )


def most_urgent(met: Sequence[Threshold]) -> Threshold | None:
    """Memory before all else: when it is gone nothing else can be done."""
    return next((each for each in met if SIGNALS[each.signal][0] == MEMORY), met[0] if met else None)
