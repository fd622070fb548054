"""Limits in the words of those who enforce them: files for either version of control groups, properties for systemd."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pykubelet.pod.container.cgroup import UNLIMITED, GroupLimits, spelled_page_size, weight_of

_NO_PAGES_BOUND: Final = 1 << 62
_INFINITY: Final = 2**64 - 1
_SECOND: Final = 1_000_000  # microseconds


class Value(Struct, frozen=True, kw_only=True):
    """What one file of a group is to hold."""

    controller: str
    file: str
    text: str
    optional: bool = False
    """Whether nothing is lost where the kernel has no such file."""


def legacy_values(limits: GroupLimits, page_sizes: tuple[int, ...]) -> Iterator[Value]:
    if limits.cpu_shares is not None:
        yield Value(controller="cpu", file="cpu.shares", text=str(limits.cpu_shares))
    if limits.cpu_quota is not None:
        free = limits.cpu_quota == UNLIMITED
        yield Value(controller="cpu", file="cpu.cfs_period_us", text=str(limits.cpu_period), optional=free)
        yield Value(controller="cpu", file="cpu.cfs_quota_us", text=str(limits.cpu_quota), optional=free)
    if limits.memory is not None:
        yield Value(controller="memory", file="memory.limit_in_bytes", text=str(limits.memory))
    yield from _pids(limits)
    for size, much in _pages(limits, page_sizes):
        yield Value(controller="hugetlb", file=f"hugetlb.{size}.limit_in_bytes", text=much)
        yield Value(controller="hugetlb", file=f"hugetlb.{size}.rsvd.limit_in_bytes", text=much, optional=True)


def unified_values(limits: GroupLimits, page_sizes: tuple[int, ...]) -> Iterator[Value]:
    if limits.cpu_shares is not None:
        yield Value(controller="cpu", file="cpu.weight", text=str(weight_of(limits.cpu_shares)))
    if limits.cpu_quota is not None:
        quota = _or_max(limits.cpu_quota)
        yield Value(controller="cpu", file="cpu.max", text=f"{quota} {limits.cpu_period}", optional=quota == "max")
    if limits.memory is not None:
        yield Value(controller="memory", file="memory.max", text=_or_max(limits.memory))
    yield from _pids(limits)
    for size, much in _pages(limits, page_sizes):
        yield Value(controller="hugetlb", file=f"hugetlb.{size}.max", text=much)
        yield Value(controller="hugetlb", file=f"hugetlb.{size}.rsvd.max", text=much, optional=True)


def _pids(limits: GroupLimits) -> Iterator[Value]:
    if limits.pids is not None:
        yield Value(controller="pids", file="pids.max", text=_or_max(limits.pids))


def _or_max(number: int) -> str:
    return "max" if number == UNLIMITED else str(number)


def _pages(limits: GroupLimits, page_sizes: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for size in page_sizes:
        much = _NO_PAGES_BOUND if limits.hugepages is None else limits.hugepages.get(size, 0)
        yield spelled_page_size(size), str(much)


# --- systemd

Property = tuple[str, ...]
"""As busctl takes it: the name, the type, the value."""


def slice_properties(description: str, parent: str, *, unified: bool) -> list[Property]:
    """A new slice, which counts everything that it may have to limit later."""
    io = "IOAccounting" if unified else "BlockIOAccounting"
    return [
        ("Description", "s", description),
        ("Wants", "as", "1", parent),
        *((name, "b", "true") for name in ("MemoryAccounting", "CPUAccounting", io, "TasksAccounting")),
        ("DefaultDependencies", "b", "false"),
    ]


def limit_properties(limits: GroupLimits, *, unified: bool, version: int, cpus: str = "") -> list[Property]:
    """`version` is systemd's; `cpus`, such as `0-3`, makes it keep the processors of the group under control, too."""
    properties: list[Property] = []
    if limits.memory is not None:
        properties.append(_number("MemoryMax" if unified else "MemoryLimit", limits.memory))
    if limits.cpu_shares is not None and unified:
        properties.append(_number("CPUWeight", weight_of(limits.cpu_shares)))
    elif limits.cpu_shares is not None:
        properties.append(_number("CPUShares", limits.cpu_shares))
    if limits.cpu_quota is not None:
        if version >= 242:
            properties.append(_number("CPUQuotaPeriodUSec", limits.cpu_period))
        properties.append(_number("CPUQuotaPerSecUSec", _per_second(limits.cpu_quota, limits.cpu_period)))
    if limits.pids is not None:
        properties.append(_number("TasksMax", limits.pids))
    if cpus and version >= 244:
        mask = processor_mask(cpus)
        properties.append(("AllowedCPUs", "ay", str(len(mask)), *map(str, mask)))
    return properties


def _number(name: str, number: int) -> Property:
    return name, "t", str(_INFINITY if number == UNLIMITED else number)


def _per_second(quota: int, period: int) -> int:
    """systemd counts whole hundredths of a cpu: rounded up, so that the containers' own quotas fit in."""
    if quota == UNLIMITED:
        return UNLIMITED
    per_second = quota * _SECOND // period
    return -(-per_second // 10_000) * 10_000


def processor_mask(cpus: str) -> bytes:
    """`0-2,8` -> one bit for each, the lowest first."""
    bits = 0
    for part in filter(None, cpus.strip().split(",")):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            bits |= 1 << number
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
