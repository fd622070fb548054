"""Which devices the claims of a pod get on a node: the first that fit all that is asked for, in order. Pure.

It is a search that goes back when it cannot go on: every turn makes a choice, and when what follows from it does not
lead to the end, takes it back and makes the next one. The turns are on a stack of our own, so that a claim may be
large. Upstream's allocator decides the same, and where it has no order, ours is by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pykubelet.apiserver.controllers.scheduling.device_pools import (
    Device,
    DeviceId,
    Pool,
    Supply,
    Unallocatable,
    spend,
)
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.device_selectors import attribute

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.program import Budget

MOST_DEVICES: Final = 32
"""Of one claim."""


class Wanted(Struct, frozen=True, eq=False):
    """A request of a claim, or one of those that its author would take instead of each other."""

    whose: str
    """The claim, as messages name it."""
    request: str
    sub: str
    spec: Object
    device_class: Object
    count: int
    every: tuple[Device, ...] | None
    """All that there are, for who wants all."""

    @property
    def name(self) -> str:
        return f"{self.request}/{self.sub}" if self.sub else self.request

    @property
    def is_admin(self) -> bool:
        return not self.sub and bool(self.spec.get("adminAccess"))


class Picked(Struct, frozen=True, eq=False):
    wanted: Wanted
    device: Device


Turn = tuple[int, int, int, int]
"""claim, request, which of its alternatives (-1: still to be chosen), and how many devices it has already"""


def allocate(
    supply: Supply, node: str, labels: Mapping[str, str], claims: Sequence[Object], budget: "Budget"
) -> list[Object] | None:
    """What to write into each claim; None: the node cannot give it. Raises Unallocatable and OutOfBudget."""
    pools = supply.pools(node, labels)
    asked = [_requests(supply, claim, pools, budget) for claim in claims]
    found = _Search(supply, pools, claims, asked, budget).found()
    if found is None:
        return None
    return [_result(claim, picked, node) for claim, picked in zip(claims, found, strict=True)]


# --- what is asked for


def _requests(supply: Supply, claim: Object, pools: Sequence[Pool], budget: "Budget") -> list[list[Wanted]]:
    """Of each request of a claim, what would do, in order."""
    whose = f"claim {at(claim, 'metadata.namespace', '')}/{at(claim, 'metadata.name', '')}"
    found = []
    for request in at(claim, "spec.devices.requests", ()):
        name, exactly = request.get("name", ""), request.get("exactly")
        others = [("", exactly)] if exactly else [(each["name"], each) for each in request.get("firstAvailable") or ()]
        found.append([_wanted(supply, whose, name, sub, spec, pools, budget) for sub, spec in others])
    least = sum(min((each.count for each in one), default=0) for one in found)
    if least > MOST_DEVICES:
        said = f"number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
        raise Unallocatable(f"{whose}: {said}")
    return found


def _wanted(
    supply: Supply, whose: str, request: str, sub: str, spec: Object, pools: Sequence[Pool], budget: "Budget"
) -> Wanted:
    name = spec.get("deviceClassName", "")
    known = supply.classes.get(name)
    if known is None:
        said = f'could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
        raise Unallocatable(f"{whose}, request {sub or request}: {said}")
    one = Wanted(whose, request, sub, spec, known, spec.get("count") or 0, None)
    if spec.get("allocationMode") != "All":
        return one
    every = []
    for pool in pools:
        if pool.is_incomplete or pool.duplicate:
            state = "being updated" if pool.is_incomplete else "invalid"
            said = f"asks for all devices, but resource pool {pool} is currently {state}"
            raise Unallocatable(f"{whose}, request {sub or request}: {said}")
        spend(budget, len(pool.devices))
        every += [device for device in pool.devices if _is_meant(supply, one, device, budget)]
    return Wanted(whose, request, sub, spec, known, len(every), tuple(every))


def _is_meant(supply: Supply, wanted: Wanted, device: Device, budget: "Budget") -> bool:
    of_class = f"class {at(wanted.device_class, 'metadata.name', '')}"
    return supply.is_meant(_expressions(at(wanted.device_class, "spec", {})), device, budget, of_class) and (
        supply.is_meant(_expressions(wanted.spec), device, budget, wanted.whose)
    )


def _expressions(spec: Object) -> list[str]:
    return [at(each, "cel.expression", "") for each in spec.get("selectors") or ()]


# --- the search


class _Search:
    def __init__(
        self,
        supply: Supply,
        pools: Sequence[Pool],
        claims: Sequence[Object],
        asked: list[list[list[Wanted]]],
        budget: "Budget",
    ) -> None:
        self._supply, self._pools, self._asked, self._budget = supply, pools, asked, budget
        self._constraints = [at(claim, "spec.devices.constraints", ()) for claim in claims]
        self._picked: list[list[Picked]] = [[] for _ in claims]
        self._by_claim: list[set[DeviceId]] = [set() for _ in claims]
        self._in_use: dict[DeviceId, int] = {}
        self._meant: dict[tuple[int, DeviceId], bool] = {}

    def found(self) -> list[list[Picked]] | None:
        stack: list[Iterator[Turn]] = [self._turns((0, 0, -1, 0))]
        while stack:
            spend(self._budget, 1)
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
            elif following[0] == len(self._asked):
                return self._picked
            else:
                stack.append(self._turns(following))
        return None

    def _turns(self, turn: Turn) -> Iterator[Turn]:
        """Makes one choice after the other: each is taken back when the next is asked for."""
        claim, request, which, have = turn
        if claim == len(self._asked) or request == len(self._asked[claim]):
            yield claim + 1, 0, -1, 0
        elif which < 0:
            yield from ((claim, request, each, 0) for each in self._alternatives(claim, request))
        elif have == self._asked[claim][request][which].count:
            yield claim, request + 1, -1, 0
        else:
            wanted = self._asked[claim][request][which]
            for device in self._candidates(wanted, claim, have):
                self._take(claim, wanted, device)
                yield claim, request, which, have + 1
                self._give_back(claim)

    def _alternatives(self, claim: int, request: int) -> Iterator[int]:
        """Those that leave room for the rest: a claim holds only so many devices."""
        rest = sum(min((each.count for each in one), default=0) for one in self._asked[claim][request + 1 :])
        for index, wanted in enumerate(self._asked[claim][request]):
            is_empty = wanted.every is not None and not wanted.every
            if not is_empty and len(self._picked[claim]) + wanted.count + rest <= MOST_DEVICES:
                yield index

    def _candidates(self, wanted: Wanted, claim: int, have: int) -> Iterator[Device]:
        if wanted.every is not None:
            device = wanted.every[have]
            if self._is_free(wanted, claim, device):
                if not self._is_allowed(wanted, claim, device):
                    said = f"cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"
                    raise Unallocatable(f"{wanted.whose}, request {wanted.sub or wanted.request}: {said}")
                yield device
            return
        for pool in self._pools:
            if pool.duplicate:
                raise Unallocatable(f"pool {pool.name} is invalid: duplicate device name {pool.duplicate}")
            for device in pool.devices:
                spend(self._budget, 1)
                if not self._is_free(wanted, claim, device):
                    continue
                key = id(wanted), device.id
                if key not in self._meant:
                    self._meant[key] = _is_meant(self._supply, wanted, device, self._budget)
                if self._meant[key] and self._is_allowed(wanted, claim, device):
                    yield device

    def _is_free(self, wanted: Wanted, claim: int, device: Device) -> bool:
        if device.obj.get("consumesCounters") or device.obj.get("bindingConditions"):
            return False  # switched off as features, here as upstream
        if wanted.is_admin:
            return device.id not in self._by_claim[claim]
        return device.id not in self._supply.taken and not self._in_use.get(device.id)

    def _is_allowed(self, wanted: Wanted, claim: int, device: Device) -> bool:
        """By the constraints of the claim: all devices that one is about have the same."""
        spend(self._budget, len(self._constraints[claim]))
        for constraint in self._constraints[claim]:
            if not _concerns(constraint, wanted):
                continue
            name = constraint.get("matchAttribute") or ""
            value = attribute(device.driver, device.obj, name)
            if value is None:
                return False
            for each in self._picked[claim]:
                spend(self._budget, 1)
                if _concerns(constraint, each.wanted):
                    if attribute(each.device.driver, each.device.obj, name) != value:
                        return False
                    break  # the others have the same as this one
        return True

    def _take(self, claim: int, wanted: Wanted, device: Device) -> None:
        self._picked[claim].append(Picked(wanted, device))
        self._by_claim[claim].add(device.id)
        self._in_use[device.id] = self._in_use.get(device.id, 0) + 1

    def _give_back(self, claim: int) -> None:
        device = self._picked[claim].pop().device
        self._by_claim[claim].discard(device.id)
        self._in_use[device.id] -= 1


def _concerns(constraint: Object, wanted: Wanted) -> bool:
    names = constraint.get("requests") or ()
    return not names or wanted.request in names or wanted.name in names


# --- what is written


def _result(claim: Object, picked: Sequence[Picked], node: str) -> Object:
    results = []
    for each in picked:
        driver, pool, device = each.device.id
        made: dict[str, Any] = {"request": each.wanted.name, "driver": driver, "pool": pool, "device": device}
        results.append({**made, "adminAccess": True} if each.wanted.is_admin else made)
    configuration = [*_of_classes(claim, picked), *_of_claim(claim, picked)]
    found: Object = {"devices": {"results": results, **({"config": configuration} if configuration else {})}}
    selector = _node_selector(picked, node)
    return {**found, "nodeSelector": selector} if selector else found


def _of_classes(claim: Object, picked: Sequence[Picked]) -> Iterator[Object]:
    """Each once, with all requests that are of the class."""
    chosen = _chosen(picked)
    of_class: dict[str, tuple[Object, list[str]]] = {}
    for request in at(claim, "spec.devices.requests", ()):
        wanted = chosen.get(request.get("name", ""))
        if wanted is not None:
            name = at(wanted.device_class, "metadata.name", "")
            of_class.setdefault(name, (wanted.device_class, []))[1].append(wanted.name)
    for known, requests in of_class.values():
        for each in at(known, "spec.config", ()):
            yield {"source": "FromClass", "requests": requests, **each}


def _of_claim(claim: Object, picked: Sequence[Picked]) -> Iterator[Object]:
    chosen = _chosen(picked)
    for each in at(claim, "spec.devices.config", ()):
        names = each.get("requests") or ()
        made = {"source": "FromClaim", **each}
        if not names:
            yield made
        for request in at(claim, "spec.devices.requests", ()) if names else ():
            wanted = chosen.get(request.get("name", ""))
            if request.get("name") in names or (wanted is not None and wanted.name in names):
                yield made


def _chosen(picked: Sequence[Picked]) -> dict[str, Wanted]:
    return {each.wanted.request: each.wanted for each in picked}


def _node_selector(picked: Sequence[Picked], node: str) -> Object | None:
    """Where all devices can be reached from."""
    term: dict[str, list[Object]] = {}
    for each in picked:
        spec = each.device.slice
        if spec.get("nodeName"):
            return {"nodeSelectorTerms": [{"matchFields": [_is_node(node)]}]}
        terms = at(spec, "nodeSelector.nodeSelectorTerms", ())
        if len(terms) > 1:
            raise Unallocatable(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for one in terms:
            for kind in ("matchFields", "matchExpressions"):
                for requirement in one.get(kind) or ():
                    known = term.setdefault(kind, [])
                    if not any(_is_same(requirement, other) for other in known):
                        known.append(requirement)
    return {"nodeSelectorTerms": [term]} if term else None


def _is_node(name: str) -> Object:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


def _is_same(one: Object, other: Object) -> bool:
    return (one.get("key"), one.get("operator"), set(one.get("values") or ())) == (
        other.get("key"),
        other.get("operator"),
        set(other.get("values") or ()),
    )
