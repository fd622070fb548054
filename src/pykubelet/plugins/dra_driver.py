"""One program of a driver of allocated devices: the questions that it is asked, and what of its answers is believed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.errors import Invalid, PykubeletError, as_it_came
from pykubelet.plugins._gen import dra_health_pb2 as health
from pykubelet.plugins._gen import dra_pb2 as wire
from pykubelet.plugins.cdi import check_device_name
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.health import Health
from pykubelet.pod.claims.table import HeldClaim, PreparedDevice
from pykubelet.web.grpc_channel import Channel, code_of

Reply = TypeVar("Reply", bound=Message)
Called = Callable[[str, str, float], None]
"""Of each call: its full name, gRPC's word for what came of it, and the seconds that it took."""

DEADLINE: Final = 45.0
_PACKAGE: Final = "k8s.io.kubelet.pkg.apis.dra"
_HEALTH: Final = "v1alpha1.DRAResourceHealth/NodeWatchResources"
_LARGEST: Final = 4 << 20
_MOST_IDS: Final = 1024
"""Of one claim: more than anybody needs, and a container can still be started with."""
_MOST_DEVICES: Final = 65_536
_LONGEST: Final = 1024
"""Of what it says that went wrong: people are told."""
_HEALTHS: Final[Mapping[int, Health]] = {health.HEALTHY: "Healthy", health.UNHEALTHY: "Unhealthy"}


class DraInstance:
    """There may be several of a driver while it is updated. `service` is such as `v1.DRAPlugin`."""

    def __init__(self, driver: str, endpoint: str, service: str, called: Called) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.is_connected = False
        self._service = f"{_PACKAGE}.{service}"
        self._called = called
        self._channel = Channel(endpoint, deadline=DEADLINE, peer=f"DRA driver {driver}", largest=_LARGEST)

    def connections(self) -> AsyncGenerator[bool, None]:
        return self._channel.connections()

    async def close(self) -> None:
        await self._channel.close()

    async def prepare(self, claims: Collection[DeviceClaim]) -> dict[str, tuple[PreparedDevice, ...]]:
        """-> by uid of the claim. Raises ClaimFailed."""
        method, asked = "NodePrepareResources", [_asked(each.metadata) for each in claims]
        request = wire.NodePrepareResourcesRequest(claims=asked)
        told = await self._call(method, request, wire.NodePrepareResourcesResponse)
        self._check(method, asked, {uid: each.error for uid, each in told.claims.items()})
        return {each.metadata.uid: self._devices(each, told.claims[each.metadata.uid]) for each in claims}

    async def unprepare(self, claims: Collection[HeldClaim]) -> None:
        """Raises ClaimFailed."""
        method, asked = "NodeUnprepareResources", [_asked(each) for each in claims]
        request = wire.NodeUnprepareResourcesRequest(claims=asked)
        told = await self._call(method, request, wire.NodeUnprepareResourcesResponse)
        self._check(method, asked, {uid: each.error for uid, each in told.claims.items()})

    async def health(self) -> AsyncGenerator[dict[tuple[str, str], Health], None]:
        """What it tells of its devices, by pool and name, until it ends. Raises base.errors."""
        request, reply = health.NodeWatchResourcesRequest(), health.NodeWatchResourcesResponse
        async for told in self._channel.stream(_HEALTH, request, reply):
            if len(told.devices) > _MOST_DEVICES:
                raise Invalid(f"{len(told.devices)} devices are too many: at most {_MOST_DEVICES} are followed")
            yield {
                (each.device.pool_name, each.device.device_name): _HEALTHS.get(each.health, "Unknown")
                for each in told.devices
            }

    def _check(self, method: str, asked: Collection[wire.Claim], errors: Mapping[str, str]) -> None:
        """An answer for each claim that was asked about, and for no other."""
        names = {each.uid: each.name for each in asked}
        for uid, error in sorted(errors.items()):
            if uid not in names:
                raise self._failed(f"{method} returned result for unknown claim UID {uid[:100]}")
            if error:
                said = error[:_LONGEST]
                raise self._failed(f"{method} failed for ResourceClaim {names[uid]}: {said}", names[uid])
        if missing := [name for uid, name in names.items() if uid not in errors]:
            raise self._failed(f"{method} skipped {len(missing)} ResourceClaims", missing[0])

    def _devices(self, claim: DeviceClaim, told: wire.NodePrepareResourceResponse) -> tuple[PreparedDevice, ...]:
        name, allocation = claim.metadata.name, claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        allocated = {(each.pool, each.device) for each in results if each.driver == self.driver}
        who = f"NodePrepareResources: DRA driver {self.driver} answers for ResourceClaim {name}"
        if len(told.devices) > _MOST_IDS or any(len(each.request_names) > _MOST_IDS for each in told.devices):
            raise self._failed(f"{who} with more than {_MOST_IDS} devices, or requests of one", name)
        if sum(len(each.cdi_device_ids) for each in told.devices) > _MOST_IDS:
            raise self._failed(f"{who} with more than {_MOST_IDS} CDI devices", name)
        for each in told.devices:
            if (each.pool_name, each.device_name) not in allocated:
                what = f"{each.pool_name[:100]}/{each.device_name[:100]}"
                raise self._failed(f"{who} with device {what}, which was not allocated", name)
            try:
                for id_ in each.cdi_device_ids:
                    check_device_name(id_)
            except Invalid as error:
                raise self._failed(f"{who}: {error}", name) from None
        return tuple(
            PreparedDevice(each.pool_name, each.device_name, tuple(each.request_names), tuple(each.cdi_device_ids))
            for each in told.devices
        )

    def _failed(self, text: str, claim: str = "") -> ClaimFailed:
        return ClaimFailed(text, claim=claim, driver=self.driver)

    async def _call(self, name: str, request: Message, reply: type[Reply]) -> Reply:
        method, clock = f"{self._service}/{name}", asyncio.get_running_loop().time
        began, code = clock(), "OK"
        try:
            return await self._channel.call(method, request, reply)
        except PykubeletError as error:
            code = code_of(error) or "Unknown"
            raise self._failed(f"{name}: DRA driver {self.driver}: {as_it_came(error)}") from error
        finally:
            self._called(f"/{method}", code, clock() - began)


def _asked(claim: HeldClaim | ObjectMeta) -> wire.Claim:
    return wire.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
