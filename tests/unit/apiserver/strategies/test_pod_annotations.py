"""Annotations that are part of what a pod is."""

from typing import Any

import pytest

from kit.api_process import Api

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
MIRROR = "kubernetes.io/config.mirror"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"


def pod(**annotations: str) -> dict[str, Any]:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize(
    ("before", "change", "why"),
    [
        ({MIRROR: "x"}, {MIRROR: None}, "may not remove or update mirror pod annotation"),
        ({MIRROR: "x"}, {MIRROR: "y"}, "may not remove or update mirror pod annotation"),
        ({}, {MIRROR: "x"}, "may not add mirror pod annotation"),
        ({APP_ARMOR: "unconfined"}, {APP_ARMOR: None}, "may not remove or update AppArmor annotations"),
        ({}, {APP_ARMOR: "unconfined"}, "may not add AppArmor annotations"),
    ],
)
async def test_what_a_pod_is_cannot_be_changed_by_its_annotations(
    api: Api, part: str, before: dict[str, str], change: dict[str, Any], why: str
) -> None:
    code, _ = await api.ask("POST", PODS, pod(**before))
    assert code == 201
    patch = {"metadata": {"annotations": change}}
    code, refused = await api.ask("PATCH", f"{PODS}/p{part}", patch, kind=MERGE)
    assert (code, why in refused["message"]) == (422, True)
    code, _ = await api.ask("PATCH", f"{PODS}/p{part}", {"metadata": {"annotations": {"a": "b"}}}, kind=MERGE)
    assert code == 200


async def test_a_binding_does_not_make_a_mirror_pod(api: Api) -> None:
    made = pod()
    del made["spec"]["nodeName"]
    await api.ask("POST", PODS, made)
    binding = {"metadata": {"name": "p", "annotations": {MIRROR: "x"}}, "target": {"kind": "Node", "name": "n1"}}
    code, refused = await api.ask("POST", f"{PODS}/p/binding", binding)
    assert (code, "may not add mirror pod annotation" in refused["message"]) == (422, True)
