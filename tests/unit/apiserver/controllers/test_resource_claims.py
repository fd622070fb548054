"""Claims on devices: how they come from templates, and what becomes of them when their pods have ended."""

import asyncio
from threading import get_ident
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.devices import DEVICES, allocated, claimed, claims, device_claim, request, supplied
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers import resource_claim_rules
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.resource_claim_rules import FINALIZER, generated_name
from pykubelet.apiserver.controllers.resource_claims import DEVICE_CLAIMS, ResourceClaims
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies import device_requests, device_selectors

PODS = ("", "pods")
MADE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
GIVEN = {"allocation": {"devices": {"results": [RESULT]}}}


async def template(c: TestCluster) -> None:
    given = {"labels": {"app": "web"}, "annotations": {"why": "fast"}}
    spec = {"metadata": given, "spec": device_claim("x")["spec"]}
    place = {"name": "one-gpu", "namespace": "default"}
    await c.add(DEVICES, "resourceclaimtemplates", {"metadata": place, "spec": spec})


async def all_claims(c: TestCluster) -> list[Object]:
    return await c.all(DEVICE_CLAIMS)


def held(claim: Object, *users: str, **more: Any) -> Object:
    """With a device, reserved for pods."""
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-of-{each}"} for each in users]
    metadata = {**claim["metadata"], "finalizers": [FINALIZER], **more}
    return {**claim, "metadata": metadata, "status": {**GIVEN, "reservedFor": reserved}}


async def ended(c: TestCluster, name: str, phase: str = "Succeeded") -> None:
    over = {"phase": phase}
    pod = await c.get("pods", name)
    await c.change(PODS, pod, lambda live: {**live, "status": {**live["status"], **over}}, part="status")


@virtual_time
async def test_a_claim_is_made_from_its_template_once_and_the_pod_says_which() -> None:
    async with cluster() as c:
        await template(c)
        await c.pod("web", MADE)
        for _ in range(3):
            await ResourceClaims(c).sync()
        (claim,) = await all_claims(c)
        metadata = claim["metadata"]
        assert metadata["name"].startswith("web-gpu-")
        assert metadata["labels"] == {"app": "web"}
        assert metadata["annotations"] == {"why": "fast", "resource.kubernetes.io/pod-claim-name": "gpu"}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web"}
        assert metadata["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
        pod = await c.get("pods", "web")
        assert pod["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": metadata["name"]}]


@virtual_time
async def test_a_claim_that_was_made_and_not_told_is_found_and_one_that_was_taken_away_is_made_anew() -> None:
    async with cluster() as c:
        await template(c)
        await c.pod("web", MADE)
        await ResourceClaims(c).sync()
        (claim,) = await all_claims(c)
        forgetful = {"phase": "Pending"}
        await c.change(PODS, await c.get("pods", "web"), lambda live: {**live, "status": forgetful}, part="status")
        await ResourceClaims(c).sync()
        assert [each["metadata"]["name"] for each in await all_claims(c)] == [claim["metadata"]["name"]]
        await c.remove(DEVICE_CLAIMS, claim)
        await ResourceClaims(c).sync()
        (new,) = await all_claims(c)
        assert new["metadata"]["name"] != claim["metadata"]["name"]
        (told,) = (await c.get("pods", "web"))["status"]["resourceClaimStatuses"]
        assert told["resourceClaimName"] == new["metadata"]["name"]


@virtual_time
async def test_a_missing_template_is_told_and_waited_for() -> None:
    async with cluster() as c, running(ResourceClaims(c)):
        await c.pod("web", MADE)
        await asyncio.sleep(1)
        said = 'resource claim template "one-gpu": resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
        assert await c.events() == [("FailedResourceClaimCreation", f"PodResourceClaim gpu: {said}")]
        await template(c)
        await asyncio.sleep(1)
        assert len(await all_claims(c)) == 1


@pytest.mark.parametrize(
    ("pod", "claim", "expected"),
    [
        ("web", "gpu", "web-gpu-"),
        ("p" * 50, "gpu", f"{'p' * 51}"[:50] + "-gpu-"),
        ("p" * 60, "c" * 20, f"{'p' * 41}-{'c' * 13}"),
        ("p" * 253, "c" * 63, f"{'p' * 45}-{'c' * 11}"),
    ],
)
def test_long_names_are_shortened_as_upstream_does(pod: str, claim: str, expected: str) -> None:
    assert generated_name(pod, claim) == expected


@virtual_time
async def test_devices_are_given_back_when_the_last_pod_that_used_them_has_ended() -> None:
    async with cluster() as c:
        await claimed(c, held(device_claim("shared"), "one", "two", "gone"))
        for name in ("one", "two"):
            await c.pod(name, {**claims("shared"), "nodeName": "n1"})
        await ResourceClaims(c).sync()
        assert await allocated(c, "shared") == (["gpu-0"], ["one", "two"])
        await ended(c, "one")
        await ResourceClaims(c).sync()
        assert await allocated(c, "shared") == (["gpu-0"], ["two"])
        await ended(c, "two", "Failed")
        await ResourceClaims(c).sync()
        claim = await c.get("resourceclaims", "shared", group=DEVICES)
        assert claim.get("status", {}) == {}
        assert not claim["metadata"].get("finalizers")


@virtual_time
async def test_a_pod_that_was_only_just_made_keeps_what_is_reserved_for_it() -> None:
    async with cluster() as c:
        await c.pod("web", {**claims("gpus"), "nodeName": "n1"})
        await claimed(c, held(device_claim("gpus"), "web"))
        controller = ResourceClaims(c)
        (claim,) = await all_claims(c)
        await controller._tidy(claim, {})  # as if the pod had come after the pods were looked at
        assert await allocated(c, "gpus") == (["gpu-0"], ["web"])
        other = {**claim["status"]["reservedFor"][0], "uid": "before"}
        assert await controller._is_gone("default", other, {})


@virtual_time
async def test_a_claim_that_was_made_for_a_pod_goes_when_the_pod_has_ended_or_is_gone() -> None:
    async with cluster() as c, running(ResourceClaims(c)), running(Scheduler(c)), running(GarbageCollector(c)):
        await supplied(c)
        await template(c)
        for name in ("job", "web"):
            await c.pod(name, MADE)
        await asyncio.sleep(5)
        assert len(await all_claims(c)) == 2
        assert all(each["status"]["reservedFor"] for each in await all_claims(c))
        await ended(c, "job")
        await asyncio.sleep(5)
        (left,) = await all_claims(c)
        assert left["metadata"]["ownerReferences"][0]["name"] == "web"
        await c.remove(PODS, await c.get("pods", "web"), grace=0)
        await asyncio.sleep(40)
        assert await all_claims(c) == []


@virtual_time
async def test_a_claim_that_is_deleted_stays_as_long_as_a_pod_uses_it() -> None:
    async with cluster() as c:
        await c.pod("web", {**claims("gpus"), "nodeName": "n1"})
        await claimed(c, held(device_claim("gpus"), "web"), held(device_claim("idle")))
        for claim in await all_claims(c):
            await c.remove(DEVICE_CLAIMS, claim)
        await ResourceClaims(c).sync()
        assert [each["metadata"]["name"] for each in await all_claims(c)] == ["gpus"]
        await ended(c, "web")
        await ResourceClaims(c).sync()
        assert await all_claims(c) == []


@virtual_time
async def test_a_pod_that_somebody_else_has_put_on_a_node_gets_its_reservation() -> None:
    async with cluster() as c:
        await claimed(c, {**device_claim("gpus"), "status": GIVEN}, device_claim("open"))
        await c.pod("web", {**claims("gpus", "open"), "nodeName": "n1"})
        await ResourceClaims(c).sync()
        assert await allocated(c, "gpus") == (["gpu-0"], ["web"])
        assert await allocated(c, "open") == ([], [])


@virtual_time
async def test_what_others_than_pods_use_is_left_alone() -> None:
    async with cluster() as c:
        user = {"apiGroup": "x.io", "resource": "sets", "name": "a", "uid": "1"}
        claim = held(device_claim("gpus"))
        await claimed(c, {**claim, "status": {**GIVEN, "reservedFor": [user]}})
        await ResourceClaims(c).sync()
        assert await allocated(c, "gpus") == (["gpu-0"], ["a"])


@virtual_time
async def test_a_claim_elsewhere_that_says_it_is_the_pods_is_not_taken_for_it() -> None:
    async with cluster() as c:
        await template(c)
        await c.add("", "namespaces", {"metadata": {"name": "elsewhere"}})
        await c.pod("web", MADE)
        await ResourceClaims(c).sync()
        (claim,) = await all_claims(c)
        annotations, owners = claim["metadata"]["annotations"], claim["metadata"]["ownerReferences"]
        place = {"name": "a-trap", "namespace": "elsewhere", "annotations": annotations, "ownerReferences": owners}
        await c.add(DEVICES, "resourceclaims", {**device_claim("x"), "metadata": place})
        await c.remove(DEVICE_CLAIMS, claim)
        forgetful = {"phase": "Pending"}
        await c.change(PODS, await c.get("pods", "web"), lambda live: {**live, "status": forgetful}, part="status")
        await ResourceClaims(c).sync()
        pod = await c.get("pods", "web")
        assert pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].startswith("web-gpu-")


async def test_many_pods_and_costly_expressions_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a namespace may have is enough: pods that wait, claims, and a template that is hard to read."""
    async with cluster() as c:
        here, elsewhere = get_ident(), list[int]()
        read = device_selectors.compiled

        def noted(expression: str) -> Any:
            elsewhere.append(get_ident())
            return read(expression)

        monkeypatch.setattr(device_requests, "compiled", noted)
        wild = device_claim("x", request("r", f"{list(range(500))}.all(x, x < 500)"))["spec"]
        place = {"name": "one-gpu", "namespace": "default"}
        await c.add(DEVICES, "resourceclaimtemplates", {"metadata": place, "spec": {"spec": wild}})
        await c.pod("web", MADE)
        await ResourceClaims(c).sync()
        (claim,) = await all_claims(c)
        assert len(elsewhere) == 1
        assert here not in elsewhere
        await c.change(DEVICE_CLAIMS, claim, lambda live: held(live, "web"))
        assert len(elsewhere) == 1  # what stays as it is was read before

        asked = 0
        owner_of = resource_claim_rules.owner_of

        def counted(claim: Object) -> tuple[str, str]:
            nonlocal asked
            asked += 1
            return owner_of(claim)

        waiting = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "missing"}]}
        for number in range(20):
            await c.pod(f"waiting-{number}", waiting)
            await c.add(DEVICES, "resourceclaims", device_claim(f"c{number}"))
        monkeypatch.setattr(resource_claim_rules, "owner_of", counted)
        await ResourceClaims(c).sync()
        assert asked <= 60
