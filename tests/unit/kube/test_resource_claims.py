"""Claims on devices are asked for, and slices of this node are taken back."""

import pytest
from aiohttp import web

from kit.dra_driver import claim_object
from kit.last_known import Remembered
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.resource_claims import KubeResourceClaims
from unit.kube.test_runtime_classes import Server

CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/one"


async def test_a_claim_is_asked_for_and_believed_while_the_server_is_away() -> None:
    server, known = Server(), Remembered()
    server.objects[CLAIM] = claim_object("one", "a")
    async with server.client() as client:
        found = await KubeResourceClaims(client, "n1", Before(known)).claim("default", "one")
        assert found.status.allocation is not None
        assert [each.uid for each in found.status.reserved_for] == ["a"]
        server.objects.clear()
        server.code = 503
        known = Remembered(known.saved)
        again = KubeResourceClaims(client, "n1", Before(known))
        assert await again.claim("default", "one") == found
        with pytest.raises(Retry):
            await again.claim("default", "two")
        server.code = 404
        with pytest.raises(NotFound):
            await again.claim("default", "one")
        assert known.saved == {}


class Slices(Server):
    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.method} {request.path} {request.query.get('fieldSelector')}")
        return web.json_response({"kind": "Status", "code": self.code}, status=self.code)


async def test_slices_of_this_node_alone_are_removed() -> None:
    server = Slices()
    async with server.client() as client:
        api, path = KubeResourceClaims(client, "n1"), "DELETE /apis/resource.k8s.io/v1/resourceslices"
        await api.remove_slices()  # 404: it knows none
        server.code = 200
        await api.remove_slices("gpu.example.com")
        server.code = 500
        with pytest.raises(Retry):
            await api.remove_slices()
    assert server.asked[:2] == [f"{path} spec.nodeName=n1", f"{path} spec.nodeName=n1,spec.driver=gpu.example.com"]
