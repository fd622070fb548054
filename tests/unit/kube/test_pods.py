from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kit.loopback import Asked, Handler, always, client_of
from kit.pods import make_pod
from pykubelet.api.pod import PodStatus
from pykubelet.base.errors import Conflict, Invalid, NotFound, Retry
from pykubelet.kube.errors import AlreadyExists, Forbidden
from pykubelet.kube.pods import KubePods
from pykubelet.pod.ports.api import PodApi

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "default", "uid": "u1", "managedFields": [{"manager": "kubectl"}]},
    "status": {"phase": "Running"},
}


@asynccontextmanager
async def pods_of(handler: Handler) -> AsyncIterator[PodApi]:
    async with client_of(handler) as server:
        yield KubePods(server)


def refusing(code: int, reason: str = "", **details: Any) -> Handler:
    async def answer(request: web.BaseRequest) -> web.Response:
        status = {"kind": "Status", "status": "Failure", "message": "no", "code": code, "reason": reason}
        return web.json_response({**status, "details": details}, status=code)

    return answer


async def test_a_pod_is_read_without_its_managed_fields() -> None:
    asked: Asked = []
    async with pods_of(always(POD, asked)) as pods:
        pod = await pods.get("default", "web")
    assert (pod.metadata.uid, pod.status.phase) == ("u1", "Running")
    assert pod.metadata.managed_fields == ()
    assert asked[0][:2] == ("GET", "/api/v1/namespaces/default/pods/web")


async def test_a_status_patch_goes_to_the_subresource_and_is_bound_to_the_uid() -> None:
    asked: Asked = []
    async with pods_of(always(POD, asked)) as pods:
        pod = await pods.patch_status("default", "web", "u1", {"status": {"reason": None}})
    assert pod.status == PodStatus(phase="Running")
    assert pod.metadata.managed_fields == ()
    assert asked == [
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/web/status",
            "application/strategic-merge-patch+json",
            {"metadata": {"uid": "u1"}, "status": {"reason": None}},
        )
    ]


async def test_a_pod_is_created_in_its_namespace() -> None:
    asked: Asked = []
    async with pods_of(always(POD, asked)) as pods:
        created = await pods.create(make_pod("mirror", namespace="kube-system"))
    assert created.metadata.uid == "u1"
    method, path, _, body = asked[0]
    assert (method, path) == ("POST", "/api/v1/namespaces/kube-system/pods")
    assert (body["kind"], body["metadata"]["name"]) == ("Pod", "mirror")


async def test_a_deletion_carries_the_uid_and_the_grace_even_when_it_is_zero() -> None:
    asked: Asked = []
    async with pods_of(always(POD, asked)) as pods:
        await pods.delete("default", "web", "u1", 0)
    method, path, _, body = asked[0]
    assert (method, path) == ("DELETE", "/api/v1/namespaces/default/pods/web")
    assert body["preconditions"] == {"uid": "u1"}
    assert body["gracePeriodSeconds"] == 0


async def test_a_pod_that_is_gone_is_as_good_as_deleted_but_cannot_be_patched_or_read() -> None:
    async with pods_of(refusing(404, "NotFound")) as pods:
        await pods.delete("default", "web", "u1", 0)
        with pytest.raises(NotFound):
            await pods.patch_status("default", "web", "u1", {"status": {}})
        with pytest.raises(NotFound):
            await pods.get("default", "web")


async def test_another_uid_is_a_conflict_also_when_the_server_calls_it_invalid() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}
    async with pods_of(refusing(422, "Invalid", causes=[cause, cause])) as pods:
        with pytest.raises(Conflict, match="no"):
            await pods.patch_status("default", "web", "u1", {"status": {}})
    async with pods_of(refusing(409, "Conflict")) as pods:
        with pytest.raises(Conflict):
            await pods.patch_status("default", "web", "u1", {"status": {}})
        with pytest.raises(Conflict):
            await pods.delete("default", "web", "u1", 0)


@pytest.mark.parametrize("details", [{}, {"causes": [{"field": "status.phase"}]}])
async def test_other_refusals_stay_what_they_are(details: dict[str, Any]) -> None:
    async with pods_of(refusing(422, "Invalid", **details)) as pods:
        with pytest.raises(Invalid):
            await pods.patch_status("default", "web", "u1", {"status": {}})
    async with pods_of(refusing(403, "Forbidden")) as pods:
        with pytest.raises(Forbidden):
            await pods.delete("default", "web", "u1", 0)
    async with pods_of(refusing(409, "AlreadyExists")) as pods:
        with pytest.raises(AlreadyExists):
            await pods.create(make_pod())
    async with pods_of(refusing(503)) as pods:
        with pytest.raises(Retry):
            await pods.get("default", "web")
