"""Endpoints, in slices."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.endpoint_slices import EndpointSlices


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
