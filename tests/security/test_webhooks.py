"""Webhooks as a way in: whoever says where a service is, must not lead the API server to what only it can reach."""

from pathlib import Path
from typing import Any

import pytest

from kit.tls_world import World
from kit.webhook_server import webhook_server
from pykubelet.apiserver.admission.client import WebhookClient
from pykubelet.apiserver.admission.hooks import hooks_of
from pykubelet.apiserver.admission.review import CallFailed
from pykubelet.apiserver.objects import Object


class Told:
    """What somebody has written about a service."""

    def __init__(self, address: str, port: int) -> None:
        ports = [{"name": "", "port": port}]
        self._objects: dict[str, Object] = {
            "services": {"spec": {"ports": [{"port": 443}]}},
            "endpoints": {"subsets": [{"addresses": [{"ip": address}], "ports": ports}]},
        }

    async def find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        return self._objects[plural]

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        raise NotImplementedError

    known = all

    @property
    def now(self) -> Any:
        raise NotImplementedError

    @property
    def settings(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "a loopback address"),
        ("::1", "a loopback address"),
        ("::ffff:127.0.0.1", "a loopback address"),
        ("169.254.169.254", "a link-local address"),
        ("fe80::1%eth0", "no address"),
        ("0.0.0.0", "no address of a machine"),
        ("192.0.2.77", "the API server itself"),
        ("10.96.0.1", "an address of services"),
        ("metadata.example", "no address"),
        ("127.0.0.1@192.0.2.1", "no address"),
    ],
)
async def test_the_endpoints_of_a_service_lead_to_nothing_that_is_the_machines_own(
    world: World, tmp_path: Path, address: str, why: str
) -> None:
    async with webhook_server(tmp_path, "hooks.default.svc") as hooks:
        port = world.port if address == "192.0.2.77" else hooks.port
        service = {"service": {"namespace": "default", "name": "hooks"}, "caBundle": hooks.bundle}
        configuration = {"metadata": {"name": "x"}, "webhooks": [hooks.hook("v", clientConfig=service)]}
        (hook,) = hooks_of("x", configuration)
        client = WebhookClient(Told(address, port), world.addresses.fault_at)
        try:
            with pytest.raises(CallFailed, match=why):
                await client.call(hook, b"{}")
        finally:
            await client.close()
        assert hooks.asked == []
