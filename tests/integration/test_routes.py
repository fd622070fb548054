"""Services on a machine without a default route, with the kernel's packet filter, in our own network."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.netns import ADDRESS, OTHER, own_network
from kit.services import a_service, a_slice, an_endpoint
from kit.waiting import eventually
from pykubelet.services import routes
from pykubelet.services.fronts import Place
from pykubelet.services.proxier import Known, Proxier, removed, why_not

pytestmark = pytest.mark.timeout(60)

SERVICE = "10.96.0.100"
TABLE = "pykubelet-t"
KNOWN = Known((a_service(),), (a_slice("web", an_endpoint(ADDRESS)),))


@pytest.fixture
def unrouted() -> Iterator[None]:
    with own_network():
        set_default("del")
        yield


def set_default(change: str) -> None:
    subprocess.run(["ip", "route", change, "default", "via", OTHER], check=True)


def our_routes() -> list[str]:
    said = subprocess.run(["ip", "route", "show", "dev", "lo"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in said.splitlines()]


def reached() -> bool:
    try:
        socket.create_connection((SERVICE, 80), timeout=2).close()
    except OSError:
        return False
    return True


async def test_services_are_reached_and_routes_come_and_go_with_the_need(unrouted: None) -> None:
    known = KNOWN
    proxier = Proxier(TABLE, lambda: known, lambda: Place(node="n1", addresses=frozenset({ADDRESS})))
    with socket.create_server((ADDRESS, 8080)):
        assert await proxier.look() == ""
        assert our_routes() == [], "it was only tried"
        running = asyncio.create_task(proxier.run())
        try:
            await eventually(reached)
            assert our_routes() == [SERVICE]
            removed("pykubelet-other")
            assert our_routes() == [SERVICE], "they are of another agent"
            set_default("add")
            proxier.changed()
            await eventually(lambda: our_routes() == [])
            assert reached()
            set_default("del")
            proxier.changed()
            await eventually(reached)
            known = Known()
            proxier.changed()
            await eventually(lambda: our_routes() == [])
            known = KNOWN
            proxier.changed()
            await eventually(reached)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert reached(), "they stay without the agent"
        removed(TABLE)
        assert our_routes() == []


def test_where_no_route_can_be_made_it_is_told(unrouted: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    assert why_not(TABLE).startswith("this machine has no default route, and no other could be made: ")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    assert why_not(TABLE) == ""
    subprocess.run(["ip", "address", "flush", "dev", "here"], check=True)
    assert why_not(TABLE) == "this machine is in no network, so that packets would have no sender"
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "here"], check=True)
    nft = next(folder for folder in os.get_exec_path() if os.path.exists(f"{folder}/nft"))
    (tmp_path / "nft").symlink_to(f"{nft}/nft")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(routes, "_PLACES", "")
    assert why_not(TABLE).endswith("the program ip is not installed (package iproute2)")
