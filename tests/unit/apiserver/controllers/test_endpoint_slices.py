"""Endpoints, in slices."""

import asyncio
from typing import Any

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.endpoint_slices import EndpointSlices

SLICES, ENDPOINTS = ("discovery.k8s.io", "endpointslices"), ("", "endpoints")


@virtual_time
async def test_endpoint_slices_say_what_the_endpoints_say() -> None:
    kind = ("discovery.k8s.io", "endpointslices")
    async with cluster() as c, running(EndpointSlices(c)):
        addresses = [{"ip": "10.0.0.1", "nodeName": "n1"}, {"ip": "fd00::1"}]
        subset = {"addresses": addresses, "notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 80}]}
        web = {"metadata": {"name": "web", "namespace": "default"}, "subsets": [subset]}
        endpoints = await c.add("", "endpoints", web)
        await asyncio.sleep(1)
        found = {each["addressType"]: each for each in await c.all(kind)}
        assert set(found) == {"IPv4", "IPv6"}
        four = found["IPv4"]
        assert four["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert four["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]
        seen = [(each["addresses"], each["conditions"]["ready"], each.get("nodeName")) for each in four["endpoints"]]
        assert seen == [(["10.0.0.1"], True, "n1"), (["10.0.0.2"], False, None)]

        less = [{"addresses": addresses[:1], "ports": [{"port": 80}]}]
        await c.change(("", "endpoints"), endpoints, lambda live: {**live, "subsets": less})
        await asyncio.sleep(1)
        (left,) = await c.all(kind)
        assert left["metadata"]["uid"] == four["metadata"]["uid"]
        assert len(left["endpoints"]) == 1

        await c.remove(("", "endpoints"), endpoints)
        await asyncio.sleep(1)
        assert await c.all(kind) == []


def web(*addresses: str) -> dict[str, Any]:
    subset = {"addresses": [{"ip": each} for each in addresses], "ports": [{"port": 80}]}
    return {"metadata": {"name": "web", "namespace": "default"}, "subsets": [subset]}


@virtual_time
async def test_a_slice_holds_a_hundred_and_the_same_again_changes_nothing() -> None:
    async with cluster() as c:
        await c.add("", "endpoints", web(*(f"10.0.{number // 250}.{number % 250 + 1}" for number in range(250))))
        await EndpointSlices(c).sync()
        found = await c.all(SLICES)
        assert sorted(len(each["endpoints"]) for each in found) == [50, 100, 100]

        before = await c.store.revision()
        await EndpointSlices(c).sync()
        assert await c.store.revision() == before


@virtual_time
async def test_a_slice_that_changes_or_vanishes_in_between_is_put_right() -> None:
    async with cluster() as c:
        endpoints = await c.add("", "endpoints", web("10.0.0.1"))
        slices = EndpointSlices(c)
        await slices.sync()
        (made,) = await c.all(SLICES)
        key = f"endpointslices/default/{made['metadata']['name']}"
        await c.change(ENDPOINTS, endpoints, lambda live: {**live, "subsets": web("10.0.0.2")["subsets"]})
        c.store.before_write(key, lambda: c.label(SLICES, made, **made["metadata"]["labels"], mine="yes"))
        await slices.sync()
        (found,) = await c.all(SLICES)
        assert found["endpoints"][0]["addresses"] == ["10.0.0.2"]
        assert found["metadata"]["labels"]["mine"] == "yes"

        await c.change(ENDPOINTS, endpoints, lambda live: {**live, "subsets": web("10.0.0.3")["subsets"]})
        c.store.before_write(key, lambda: c.remove(SLICES, found))
        await slices.sync()
        assert await c.all(SLICES) == []
        await slices.sync()
        assert [each["endpoints"][0]["addresses"] for each in await c.all(SLICES)] == [["10.0.0.3"]]


@virtual_time
async def test_slices_of_somebody_else_are_left_alone() -> None:
    async with cluster() as c:
        theirs = {"addressType": "IPv4", "endpoints": []}
        await c.add("discovery.k8s.io", "endpointslices", {"metadata": {"name": "x", "namespace": "default"}, **theirs})
        await EndpointSlices(c).sync()

        assert len(await c.all(SLICES)) == 1


@virtual_time
async def test_slices_come_once_the_store_is_back() -> None:
    async with cluster() as c, running(EndpointSlices(c), supervised=True):
        await asyncio.sleep(1)
        await c.add("", "endpoints", web("10.0.0.1"))
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        assert len(await c.all(SLICES)) == 1


@virtual_time
async def test_what_is_there_for_its_own_machine_alone_is_in_no_slice() -> None:
    async with cluster() as c:
        await c.add(*ENDPOINTS, web("127.0.0.1", "::1", "10.0.0.1", "169.254.1.1"))
        await EndpointSlices(c).sync()
        assert [each["endpoints"][0]["addresses"] for each in await c.all(SLICES)] == [["10.0.0.1"]]
