"""Pods: what may change, and by which way."""

import time
from typing import Any

import pytest

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


@pytest.mark.parametrize(
    ("requests", "limits", "qos"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
    ],
)
async def test_the_class_of_service_is_written_down(
    api: Api, requests: dict[str, str], limits: dict[str, str], qos: str
) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}
    _, made = await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert made["status"]["qosClass"] == qos


async def test_of_a_pods_spec_only_a_little_may_change(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    new_image = {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}
    _, made = await api.ask("PATCH", f"{PODS}/p", new_image, kind=STRATEGIC)
    assert made["metadata"]["generation"] == 2
    code, refused = await api.ask("PATCH", f"{PODS}/p", {"spec": {"hostNetwork": True}}, kind=MERGE)
    assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec")])
    more = {"spec": {"containers": [{"name": "d", "image": "i"}]}}
    code, refused = await api.ask("PATCH", f"{PODS}/p", more, kind=STRATEGIC)
    assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec.containers")])
    code, refused = await api.ask("PATCH", f"{PODS}/p", {"spec": {"tolerations": []}}, kind=MERGE)
    assert code == 200, "the default ones are put back"


async def test_status_and_spec_are_written_separately(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    both = {"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}}
    _, by_status = await api.ask("PATCH", f"{PODS}/p/status", both, kind=STRATEGIC)
    assert (by_status["status"]["phase"], by_status["spec"].get("activeDeadlineSeconds")) == ("Running", None)
    assert by_status["metadata"]["generation"] == 1
    _, by_spec = await api.ask("PATCH", f"{PODS}/p", {**both, "status": {"phase": "Failed"}}, kind=STRATEGIC)
    assert (by_spec["status"]["phase"], by_spec["spec"]["activeDeadlineSeconds"]) == ("Running", 5)
    managers = {(each["manager"], each.get("subresource", "")) for each in by_spec["metadata"]["managedFields"]}
    assert {part for _, part in managers} == {"", "status"}


async def test_a_container_that_has_ended_for_good_stays_ended(api: Api) -> None:
    await api.ask("POST", PODS, pod(restartPolicy="Never"))
    ended = {"status": {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}}
    running = {"status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/status", ended, kind=MERGE))[0] == 200
    code, refused = await api.ask("PATCH", f"{PODS}/p/status", running, kind=MERGE)
    assert (code, causes(refused)[0][1]) == (422, "status.containerStatuses[0].state")


async def test_ephemeral_containers_are_added_by_their_own_door(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    given = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox:1"}], "hostNetwork": True}}
    code, made = await api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", given, kind=STRATEGIC)
    assert code == 200
    assert made["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert "hostNetwork" not in made["spec"]
    other = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox:2"}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", other, kind=STRATEGIC))[0] == 422
    assert (await api.ask("POST", PODS, pod("q", ephemeralContainers=[{"name": "d", "image": "i"}])))[0] == 422


async def test_resources_are_changed_by_their_own_door(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    more = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert (await api.ask("PATCH", f"{PODS}/p", more, kind=STRATEGIC))[0] == 422
    _, made = await api.ask("PATCH", f"{PODS}/p/resize", more, kind=STRATEGIC)
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    guaranteed = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    given = {"spec": {"containers": [{"name": "c", "resources": guaranteed}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/resize", given, kind=STRATEGIC))[0] == 422


async def test_a_pod_is_evicted(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await api.ask("POST", f"{PODS}/p/eviction", eviction))[0] == 201
    assert (await api.ask("GET", f"{PODS}/p"))[0] == 404


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    await api.ask("POST", PODS, pod("a", nodeName="n1"))
    await api.ask("POST", PODS, pod("b"))
    for query, names in (
        ("spec.nodeName%3Dn1", ["a"]),
        ("spec.nodeName%3D", ["b"]),
        ("status.phase%3DPending,metadata.name!%3Da", ["b"]),
        ("spec.hostNetwork%3Dfalse", ["a", "b"]),
    ):
        _, found = await api.ask("GET", f"/api/v1/pods?fieldSelector={query}")
        assert [each["metadata"]["name"] for each in found["items"]] == names


async def test_very_many_tolerations_are_compared_in_no_time(api: Api) -> None:
    many = [{"key": f"k{number}", "operator": "Exists", "effect": "NoExecute"} for number in range(4000)]
    assert (await api.ask("POST", PODS, pod("many", tolerations=many)))[0] == 201
    began = time.monotonic()
    news = {"metadata": {"labels": {"a": "b"}}}
    code, answer = await api.ask("PATCH", f"{PODS}/many", news, kind="application/merge-patch+json")
    assert code == 200, answer
    assert time.monotonic() - began < 4
