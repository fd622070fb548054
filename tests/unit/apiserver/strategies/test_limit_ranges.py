"""Limit ranges."""

import time
from typing import Any

import pytest

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}


async def test_a_limit_range_fills_in_what_containers_leave_open_and_bounds_the_rest(api: Api) -> None:
    limit = {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
    _, made = await api.ask("POST", f"{NS}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "1"}
    _, small = await api.ask("POST", PODS, pod("a"))
    assert small["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    assert small["status"]["qosClass"] == "Burstable"
    assert "cpu limit for container c" in small["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    large = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]
    code, refused = await api.ask("POST", PODS, pod("b", containers=large))
    assert code == 403
    assert "maximum cpu usage per Container is 1, but limit is 2" in refused["message"]


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"type": "Nothing"}, "type"),
        ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, "min[cpu]"),
        ({"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, "defaultRequest[cpu]"),
        ({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}, "default[cpu]"),
        ({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}, "defaultRequest[cpu]"),
        ({"type": "Container", "max": {"pods": "1"}}, "max[pods]"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}, "maxLimitRequestRatio[cpu]"),
        (
            {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
            "maxLimitRequestRatio[cpu]",
        ),
        ({"type": "Pod", "default": {"cpu": "1"}}, "default"),
        ({"type": "PersistentVolumeClaim"}, "limits"),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, item: dict[str, Any], field: str) -> None:
    body = {"metadata": {"name": "x"}, "spec": {"limits": [item]}}
    code, answer = await api.ask("POST", f"{NS}/limitranges", body)
    assert code == 422, answer
    assert f"spec.limits[0].{field}" in [each["field"] for each in answer["details"]["causes"]]


async def test_claims_ask_for_as_much_as_they_may(api: Api) -> None:
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}
    made = {"metadata": {"name": "x"}, "spec": {"limits": [item]}}
    assert (await api.ask("POST", f"{NS}/limitranges", made))[0] == 201
    texts = []
    for name, size in (("small", "1Mi"), ("large", "6Gi"), ("right", "2Gi")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        body = {"metadata": {"name": name}, "spec": spec}
        code, answer = await api.ask("POST", f"{NS}/persistentvolumeclaims", body)
        texts.append((code, answer.get("message", "")))
    assert texts[0][0] == 403
    assert texts[0][1].endswith("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")
    assert texts[1][1].endswith("maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi")
    assert texts[2][0] == 201


async def test_init_containers_count_for_their_pod(api: Api) -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}}
    made = {"metadata": {"name": "x"}, "spec": {"limits": [item]}}
    assert (await api.ask("POST", f"{NS}/limitranges", made))[0] == 201

    def container(name: str, cpu: str) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"limits": {"cpu": cpu}}}

    spec = {"initContainers": [container("first", "2")], "containers": [container("main", "500m")]}
    code, answer = await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert (code, "maximum cpu usage per Pod is 1, but limit is 2" in answer["message"]) == (403, True)


async def test_large_ranges_and_many_containers_keep_nobody_waiting(api: Api) -> None:
    limit = {"type": "Container", "default": {f"example.com/r{number}": "1" for number in range(1000)}}
    code, made = await api.ask("POST", f"{NS}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert code == 201, made
    many = [{"name": f"c{number}", "image": "i"} for number in range(50)]
    began = time.monotonic()
    code, refused = await api.ask("POST", PODS, pod("b", containers=many))
    assert (code, "amounts for its containers" in refused["message"]) == (403, True), refused
    assert time.monotonic() - began < 3
    code, made = await api.ask("POST", PODS, pod("c"))
    assert "amounts" not in made.get("message", ""), made
