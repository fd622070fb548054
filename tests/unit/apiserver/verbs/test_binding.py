"""Which pods may be put on a node, and what it changes."""

from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.api.codec import convert
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.verbs.binding import Binding, bound
from unit.apiserver.verbs.bodies import PODS


def pod(**more: Any) -> dict[str, Any]:
    metadata = {"name": "p", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": more.pop("spec", {}), **more}


def binding(**metadata: Any) -> Binding:
    return convert(Binding, {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}})


@pytest.mark.parametrize(
    ("given", "asked", "why"),
    [
        (pod(metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}), binding(), "is being deleted"),
        (pod(spec={"nodeName": "n2"}), binding(), 'already assigned to node "n2"'),
        (pod(spec={"schedulingGates": [{"name": "later"}]}), binding(), "schedulingGates"),
        (pod(), binding(uid="another"), "uid in precondition: another"),
        (pod(), binding(resourceVersion="6"), "resourceVersion in precondition: 6"),
    ],
)
def test_a_pod_that_is_not_there_to_be_bound_is_refused(given: dict[str, Any], asked: Binding, why: str) -> None:
    with pytest.raises(ApiError, match=why) as refused:
        bound(given, asked, "now")
    assert refused.value.code == 409


def test_a_pod_gets_its_node_a_condition_and_what_the_binding_says() -> None:
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    old = pod(status={"conditions": [waiting, {"type": "Ready"}], "nominatedNodeName": "n9"})
    new = bound(old, binding(uid="u", resourceVersion="7", labels={"c": "d"}, annotations={"e": "f"}), "now")
    assert new["spec"] == {"nodeName": "n1"}
    assert (new["metadata"]["labels"], new["metadata"]["annotations"]) == ({"a": "b", "c": "d"}, {"e": "f"})
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "now"}
    assert new["status"] == {"conditions": [{"type": "Ready"}, scheduled]}
    assert old["spec"] == {}


async def test_a_binding_changes_neither_generation_nor_owners_and_is_refused_the_second_time(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    _, made = await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    asked = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    assert (await api.ask("POST", f"{PODS}/p/binding?dryRun=All", asked))[0] == 201
    _, found = await api.ask("GET", f"{PODS}/p")
    assert found == made

    assert (await api.ask("POST", f"{PODS}/p/binding", asked))[0] == 201
    _, found = await api.ask("GET", f"{PODS}/p")
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["generation"] == 1
    assert found["metadata"]["managedFields"] == made["metadata"]["managedFields"]
    assert (await api.ask("POST", f"{PODS}/p/binding", asked))[0] == 409
