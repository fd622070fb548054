"""The claims that are in use on this node: by which pods, and what their drivers have prepared of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.api.struct import changed
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.wanted import ClaimUse

ANY_DRIVER: Final = "<any>"
"""Under which all claims are counted."""


class ClaimKey(NamedTuple):
    namespace: str
    name: str


class PreparedDevice(Struct, frozen=True):
    """As its driver told of it."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Of the claim, for which it is; empty: for all."""
    cdi_ids: tuple[str, ...] = ()

    def serves(self, request: str) -> bool:
        """One of several that would have done (`gpu/small`) is what was asked for (`gpu`)."""
        return not request or not self.requests or any(request in (each, _base(each)) for each in self.requests)


class HeldClaim(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    pods: frozenset[str] = frozenset()
    """Uids of those that use it here."""
    drivers: Mapping[str, tuple[PreparedDevice, ...]] = {}
    """All that something was allocated of, also those with nothing to prepare."""
    is_prepared: bool = False
    """By this agent: whether what an earlier one had prepared is still there, only its drivers know."""

    @property
    def key(self) -> ClaimKey:
        return ClaimKey(self.namespace, self.name)


class ClaimTable:
    def __init__(self, held: Iterable[HeldClaim] = ()) -> None:
        self.held: dict[ClaimKey, HeldClaim] = {each.key: each for each in held}

    def hold(self, claim: DeviceClaim, uid: str) -> HeldClaim:
        """The pod of that uid uses it from now on. Raises ClaimFailed."""
        meta, key = claim.metadata, ClaimKey(claim.metadata.namespace, claim.metadata.name)
        known = self.held.get(key)
        if known is not None and known.uid != meta.uid:
            told = f"old ResourceClaim with same name {meta.name} and different UID {known.uid} still exists"
            raise ClaimFailed(f"{told} (previous pod force-deleted?!)", claim=meta.name)
        if known is None:
            results = claim.status.allocation.devices.results if claim.status.allocation else ()
            drivers: dict[str, tuple[PreparedDevice, ...]] = {each.driver: () for each in results}
            known = HeldClaim(namespace=key.namespace, name=key.name, uid=meta.uid, drivers=drivers)
        self.held[key] = known = changed(known, pods=known.pods | {uid})
        return known

    def prepared(self, key: ClaimKey, devices: Mapping[str, tuple[PreparedDevice, ...]]) -> None:
        """What its drivers have told takes the place of what was known."""
        known = self.held[key]
        self.held[key] = changed(known, drivers={**known.drivers, **devices}, is_prepared=True)

    def of(self, uid: str) -> list[HeldClaim]:
        """Those that a pod uses."""
        return [each for _, each in sorted(self.held.items()) if uid in each.pods]

    def has(self, key: ClaimKey, uid: str) -> bool:
        return key in self.held and uid in self.held[key].pods

    def release(self, key: ClaimKey, uid: str) -> None:
        """The pod does not use it any more."""
        known = self.held.get(key)
        if known is None:
            return
        if others := known.pods - {uid}:
            self.held[key] = changed(known, pods=others)
        else:
            del self.held[key]

    def devices(self, namespace: str, use: ClaimUse) -> Iterator[tuple[str, PreparedDevice]]:
        """What a container has of a claim, with the driver that brings it. Raises ClaimFailed."""
        known = self.held.get(ClaimKey(namespace, use.name))
        if known is None:
            raise ClaimFailed(f"unable to get information for ResourceClaim {use.name}", claim=use.name)
        for driver, devices in sorted(known.drivers.items()):
            yield from ((driver, each) for each in devices if each.serves(use.request))

    def users(self, driver: str, devices: Iterable[tuple[str, str]]) -> frozenset[str]:
        """The uids of pods that have one of these devices, by pool and name."""
        wanted = frozenset(devices)
        found = (
            each.pods
            for each in self.held.values()
            if any((one.pool, one.device) in wanted for one in each.drivers.get(driver, ()))
        )
        return frozenset().union(*found)

    def in_use(self) -> dict[str, int]:
        """How many are prepared: of each driver, and of any."""
        ready = [each for each in self.held.values() if each.is_prepared]
        names = sorted({driver for each in ready for driver in each.drivers})
        return {ANY_DRIVER: len(ready), **{name: sum(name in each.drivers for each in ready) for name in names}}


def _base(request: str) -> str:
    return request.partition("/")[0]
