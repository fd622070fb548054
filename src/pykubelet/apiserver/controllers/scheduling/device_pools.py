"""What devices there are, as a look of the scheduler sees them: by pool and node, each held against expressions once.

Pure. What the claims of one pod cost to look for is counted, and ends when it is too much."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.rules.node_affinity import term_holds
from pykubelet.api.scheduling import NodeSelector
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.device_selectors import compiled, device_value

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.program import Budget, Program

DeviceId = tuple[str, str, str]
"""driver, pool, name"""


class Unallocatable(Exception):
    """Something that is wrong with a claim, a class or a slice, and that no other node would change."""


class OutOfBudget(Exception):
    """It would take too long to find out."""


def spend(budget: "Budget", cost: int) -> None:
    """Raises OutOfBudget."""
    budget.left -= cost
    if budget.left <= 0:
        raise OutOfBudget


class Device(Struct, frozen=True, eq=False):
    id: DeviceId
    obj: Object
    slice: Object
    """The spec of the one that it is in."""

    @property
    def driver(self) -> str:
        return self.id[0]


class Pool(Struct, frozen=True):
    driver: str
    name: str
    devices: tuple[Device, ...]
    is_incomplete: bool
    duplicate: str
    """A device that is in it twice; then it is not to be used."""

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class Supply(Struct):
    """All slices, and classes by name; what is taken already."""

    slices: Sequence[Object] = ()
    classes: Mapping[str, Object] = {}
    taken: frozenset[DeviceId] = frozenset()
    _matches: dict[tuple[str, DeviceId], bool] = {}
    _values: dict[DeviceId, Any] = {}
    _programs: "dict[str, Program]" = {}
    _pools: dict[str, list[Pool]] = {}

    def pools(self, node: str, labels: Mapping[str, str]) -> list[Pool]:
        """Those that a node has a part in, in the order of their names. Raises Unallocatable."""
        if node not in self._pools:
            self._pools[node] = self._gathered(node, labels)
        return self._pools[node]

    def _gathered(self, node: str, labels: Mapping[str, str]) -> list[Pool]:
        found: dict[tuple[str, str], list[Object]] = {}
        for each in sorted(self.slices, key=_name):
            spec = each.get("spec") or {}
            if not reaches(spec, node, labels):
                continue
            there = found.setdefault((spec.get("driver", ""), at(spec, "pool.name", "")), [])
            newest = at(there[0], "pool.generation", 0) if there else 0
            generation = at(spec, "pool.generation", 0)
            if there and generation > newest:
                there.clear()
            if not there or generation >= newest:
                there.append(spec)
        return [_pool(driver, name, specs) for (driver, name), specs in sorted(found.items())]

    def is_meant(self, expressions: Iterable[str], device: Device, budget: "Budget", whose: str) -> bool:
        """Whether all expressions hold for a device. Raises Unallocatable, in the name of `whose` they are."""
        from pykubelet.apiserver.cel.program import CelError, CompileError, TooExpensive

        for index, expression in enumerate(expressions):
            key = expression, device.id
            known = self._matches.get(key)
            if known is None:
                try:
                    program = self._program(expression, budget)
                    if device.id not in self._values:
                        self._values[device.id] = device_value(device.driver, device.obj)
                    known = program.evaluate({"device": self._values[device.id]}, budget)
                except CompileError as error:
                    raise Unallocatable(f"{whose}: selector #{index}: CEL compile error: {error}") from None
                except CelError as error:
                    raise Unallocatable(f"{whose}: selector #{index}: CEL runtime error: {error}") from None
                except TooExpensive:
                    if budget.left <= 0:
                        raise OutOfBudget from None
                    said = "operation cancelled: actual cost limit exceeded"
                    raise Unallocatable(f"{whose}: selector #{index}: CEL runtime error: {said}") from None
                if not isinstance(known, bool):
                    said = "CEL result could not be converted to bool"
                    raise Unallocatable(f"{whose}: selector #{index}: CEL runtime error: {said}")
                self._matches[key] = known
            if not known:
                return False
        return True

    def _program(self, expression: str, budget: "Budget") -> "Program":
        """To make it ready costs as much as it is long, once. Raises CompileError and OutOfBudget."""
        found = self._programs.get(expression)
        if found is None:
            spend(budget, len(expression))
            found = self._programs[expression] = compiled(expression)
        return found


def supply(slices: Sequence[Object], classes: Iterable[Object], claims: Iterable[Object]) -> Supply:
    by_name = {at(each, "metadata.name", ""): each for each in classes}
    return Supply(slices, by_name, frozenset(each for claim in claims for each in devices_of(claim)))


def devices_of(claim: Object) -> Iterator[DeviceId]:
    """Those that nobody else may have: who only administers a device takes it from nobody."""
    for each in at(claim, "status.allocation.devices.results", ()):
        if not each.get("adminAccess"):
            yield each.get("driver", ""), each.get("pool", ""), each.get("device", "")


def reaches(spec: Object, node: str, labels: Mapping[str, str]) -> bool:
    """Whether what is said of a place, in a slice, means this node. Raises Unallocatable."""
    if spec.get("perDeviceNodeSelection") is not None:
        return False  # switched off as a feature, here as upstream
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node)
    if spec.get("allNodes"):
        return True
    return bool(spec.get("nodeSelector")) and selects(spec["nodeSelector"], node, labels)


def selects(selector: Object, node: str, labels: Mapping[str, str]) -> bool:
    """Raises Unallocatable."""
    try:
        terms = convert(NodeSelector, selector).node_selector_terms
    except DecodeError as error:
        raise Unallocatable(f"failed to parse node selector: {error}") from None
    return any(term_holds(each, node, labels) for each in terms)


def _pool(driver: str, name: str, specs: list[Object]) -> Pool:
    devices = tuple(
        Device((driver, name, each.get("name", "")), each, spec) for spec in specs for each in spec.get("devices") or ()
    )
    seen, duplicate = set[DeviceId](), ""
    for each in devices:
        duplicate = duplicate or (each.id[2] if each.id in seen else "")
        seen.add(each.id)
    return Pool(driver, name, devices, len(specs) != at(specs[0], "pool.resourceSliceCount", 0), duplicate)


def _name(obj: Object) -> str:
    return str(at(obj, "metadata.name", ""))
