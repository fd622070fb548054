"""The number of replicas, said in one way for all that can be scaled."""

from typing import Any

import pytest

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MERGE

APPLY = "application/apply-patch+yaml"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}]},
}


async def replica_set(api: Api, replicas: int = 2) -> dict[str, Any]:
    expression = {"key": "tier", "operator": "In", "values": ["x", "y"]}
    labels = {"app": "a", "tier": "x"}
    template = {**TEMPLATE, "metadata": {"labels": labels}}
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [expression]}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    code, made = await api.ask("POST", SETS, {"metadata": {"name": "rs"}, "spec": spec})
    assert code == 201, made
    found: dict[str, Any] = made
    return found


async def test_the_number_is_read_with_the_selector_as_text(api: Api) -> None:
    made = await replica_set(api)
    code, scale = await api.ask("GET", f"{SETS}/rs/scale")
    assert code == 200
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=a,tier in (x,y)"}


async def test_a_replication_controller_selects_by_labels_alone(api: Api) -> None:
    spec = {"replicas": 1, "selector": {"app": "a"}, "template": TEMPLATE}
    assert (await api.ask("POST", CONTROLLERS, {"metadata": {"name": "rc"}, "spec": spec}))[0] == 201
    assert (await api.ask("GET", f"{CONTROLLERS}/rc/scale"))[1]["status"]["selector"] == "app=a"


async def test_a_new_number_is_a_new_generation_and_its_author_owns_it(api: Api) -> None:
    await replica_set(api)
    _, scale = await api.ask("GET", f"{SETS}/rs/scale")
    code, told = await api.ask("PUT", f"{SETS}/rs/scale?fieldManager=me", {**scale, "spec": {"replicas": 5}})
    assert (code, told["spec"]) == (200, {"replicas": 5})
    _, found = await api.ask("GET", f"{SETS}/rs")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    owner = next(each for each in found["metadata"]["managedFields"] if each["manager"] == "me")
    assert (owner["subresource"], owner["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})
    code, _ = await api.ask("PUT", f"{SETS}/rs/scale", {**scale, "spec": {"replicas": 6}})
    assert code == 409, "it was read before the change"


async def test_the_number_may_be_patched_and_applied(api: Api) -> None:
    await replica_set(api)
    code, told = await api.ask("PATCH", f"{SETS}/rs/scale", {"spec": {"replicas": 0}}, kind=MERGE)
    assert (code, told["spec"]) == (200, {})
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "rs"}, "spec": {"replicas": 7}}
    code, refused = await api.ask("PATCH", f"{SETS}/rs/scale?fieldManager=you", body, kind=APPLY)
    assert (code, refused["reason"]) == (409, "Conflict")
    code, told = await api.ask("PATCH", f"{SETS}/rs/scale?fieldManager=you&force=true", body, kind=APPLY)
    assert (code, told["spec"]) == (200, {"replicas": 7})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "many"}}, 400),
        ({"metadata": {"name": "other"}}, 400),
        ({"metadata": {"resourceVersion": "1"}}, 409),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, change: dict[str, Any], code: int) -> None:
    await replica_set(api)
    assert (await api.ask("PATCH", f"{SETS}/rs/scale", change, kind=MERGE))[0] == code
    assert (await api.ask("GET", f"{SETS}/rs"))[1]["spec"]["replicas"] == 2


async def test_what_is_not_there_cannot_be_scaled(api: Api) -> None:
    assert (await api.ask("GET", f"{SETS}/rs/scale"))[0] == 404
    assert (await api.ask("GET", "/api/v1/namespaces/default/pods/p/scale"))[0] == 404
