"""A driver of allocated devices that follows the protocol, or does not, as its test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kit.plugin_socket import Introduction
from pykubelet.api import codec
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.errors import Retry
from pykubelet.plugins._gen import dra_health_pb2 as health
from pykubelet.plugins._gen import dra_pb2 as wire
from pykubelet.plugins._gen.registration_pb2 import PluginInfo
from pykubelet.web.grpc_server import Call, Stream, answering

DRIVER = "gpu.example.com"
Answer = Callable[[list[wire.Claim]], wire.NodePrepareResourcesResponse]


class Driver:
    """`asked` is what it was asked, in words. `answer` makes its answers; `failure` is what it says instead, `hangs`
    that it says nothing at all."""

    def __init__(
        self, name: str = DRIVER, *, versions: tuple[str, ...] = ("v1.DRAPlugin",), tells_health: bool = False
    ) -> None:
        self.name = name
        self.versions = versions
        self.asked: list[str] = []
        self.prepared: set[str] = set()
        """The claims that are, by name."""
        self.failure = ""
        self.hangs = False
        self.answer: Answer = plain_answer
        self.unanswered = False
        """Whether claims are missing in what it says when they are given back."""
        self._tells_health = tells_health
        self._health: list[health.DeviceHealth] = []
        self._changed = asyncio.Event()

    def tell(self, **devices: bool) -> None:
        """How well each device is."""
        self._health = [
            health.DeviceHealth(
                device=health.DeviceIdentifier(pool_name="pool", device_name=name.replace("_", "-")),
                health=health.HEALTHY if is_well else health.UNHEALTHY,
            )
            for name, is_well in devices.items()
        ]
        self._changed.set()

    @asynccontextmanager
    async def at(self, socket: Path) -> AsyncIterator[None]:
        calls: dict[str, Call | Stream] = {}
        for version in (each.partition(".")[0] for each in self.versions):
            service = f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
            calls[f"{service}/NodePrepareResources"] = Call(wire.NodePrepareResourcesRequest, self._prepare(version))
            calls[f"{service}/NodeUnprepareResources"] = Call(wire.NodeUnprepareResourcesRequest, self._unprepare)
        if self._tells_health:
            calls["v1alpha1.DRAResourceHealth/NodeWatchResources"] = Stream(
                health.NodeWatchResourcesRequest, self._watch
            )
        async with answering(str(socket), calls):
            yield

    @asynccontextmanager
    async def registered(self, root: Path, instance: str = "") -> AsyncIterator[Introduction]:
        """With the agent whose root this is, until the end of the block."""
        (root / "plugins_registry").mkdir(exist_ok=True)
        endpoint = root / f"dra{instance}.sock"
        info = PluginInfo(type="DRAPlugin", name=self.name, endpoint=str(endpoint), supported_versions=self.versions)
        introduction = Introduction(info)
        async with self.at(endpoint), introduction.at(root / "plugins_registry" / f"{self.name}{instance}-reg.sock"):
            yield introduction

    def _prepare(self, version: str) -> Callable[[wire.NodePrepareResourcesRequest], Any]:
        async def prepare(request: wire.NodePrepareResourcesRequest) -> wire.NodePrepareResourcesResponse:
            suffix = "" if version == "v1" else f" by {version}"
            await self._before(f"prepare {' '.join(each.name for each in request.claims)}{suffix}")
            self.prepared.update(each.name for each in request.claims)
            return self.answer(list(request.claims))

        return prepare

    async def _unprepare(self, request: wire.NodeUnprepareResourcesRequest) -> wire.NodeUnprepareResourcesResponse:
        await self._before(f"unprepare {' '.join(each.name for each in request.claims)}")
        self.prepared.difference_update(each.name for each in request.claims)
        claims = [] if self.unanswered else request.claims
        return wire.NodeUnprepareResourcesResponse(
            claims={each.uid: wire.NodeUnprepareResourceResponse() for each in claims}
        )

    async def _watch(self, _: health.NodeWatchResourcesRequest) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        while True:
            self._changed.clear()
            yield health.NodeWatchResourcesResponse(devices=self._health)
            await self._changed.wait()

    async def _before(self, asked: str) -> None:
        self.asked.append(asked)
        if self.hangs:
            await asyncio.sleep(3600)
        if self.failure:
            raise Retry(self.failure)


def device(name: str = "gpu-0", *ids: str, requests: tuple[str, ...] = ("gpu",), pool: str = "pool") -> wire.Device:
    return wire.Device(request_names=requests, pool_name=pool, device_name=name, cdi_device_ids=ids)


def answered(**devices: list[wire.Device]) -> Answer:
    """By uid of the claim, with - written as _."""
    found = {uid.replace("_", "-"): wire.NodePrepareResourceResponse(devices=each) for uid, each in devices.items()}
    return lambda claims: wire.NodePrepareResourcesResponse(claims=found)


def plain_answer(claims: list[wire.Claim]) -> wire.NodePrepareResourcesResponse:
    """The first device, under a name that tells of the claim."""
    return wire.NodePrepareResourcesResponse(
        claims={
            each.uid: wire.NodePrepareResourceResponse(devices=[device("gpu-0", f"example.com/gpu={each.name}")])
            for each in claims
        }
    )


def claim_object(name: str = "one", *pods: str, devices: tuple[str, ...] = ("gpu-0",), **more: Any) -> dict[str, Any]:
    """Allocated, and reserved for the pods of these uids. `more` may say `owner`, `driver`, `request`, `uid`."""
    results = [
        {"driver": more.get("driver", DRIVER), "pool": "pool", "device": each, "request": more.get("request", "gpu")}
        for each in devices
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": more.get("owner"), "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": more.get("uid", f"uid-{name}")}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata | ({"ownerReferences": [owner]} if "owner" in more else {}),
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": each, "uid": each} for each in pods],
        },
    }


def claim(name: str = "one", *pods: str, **more: Any) -> DeviceClaim:
    return codec.convert(DeviceClaim, claim_object(name, *pods, **more))
