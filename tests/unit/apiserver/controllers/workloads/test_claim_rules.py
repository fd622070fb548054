"""With whom a claim goes."""

from typing import Any

import pytest

from pykubelet.apiserver.controllers.workloads.claim_rules import ClaimView, claims_of, is_stale, owners_wanted
from pykubelet.apiserver.objects import Object

POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "uid": "pod"}}
OTHER = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "x"}


def stateful(deleted: str, scaled: str) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "set"},
        "spec": {
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
            "selector": {"matchLabels": {"app": "web"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem"}}],
        },
    }


def reference(kind: str, uid: str, controller: bool = True) -> dict[str, Any]:
    version, name = ("v1", "web-0") if kind == "Pod" else ("apps/v1", "web")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller}


def claim(*owners: dict[str, Any]) -> ClaimView:
    return ClaimView(namespace="default", name="data-web-0", uid="c", is_leaving=False, owners=owners)


SET, OWN_POD = reference("StatefulSet", "set"), reference("Pod", "pod")


@pytest.mark.parametrize(
    ("deleted", "scaled", "is_wanted", "owners", "expected"),
    [
        ("Retain", "Retain", True, [], None),
        ("Retain", "Retain", True, [SET], []),
        ("Retain", "Retain", False, [OWN_POD], []),
        ("Delete", "Retain", True, [], ["set"]),
        ("Delete", "Retain", False, [], ["set"]),
        ("Delete", "Retain", True, [SET], None),
        ("Delete", "Retain", True, [OWN_POD], ["set"]),
        ("Retain", "Delete", True, [], None),
        ("Retain", "Delete", True, [OWN_POD], []),
        ("Retain", "Delete", False, [], ["pod"]),
        ("Delete", "Delete", True, [], ["set"]),
        ("Delete", "Delete", False, [SET], ["pod"]),
        ("Delete", "Delete", True, [OWN_POD], ["set"]),
        ("Delete", "Retain", True, [reference("StatefulSet", "set", controller=False)], ["set"]),
        ("Delete", "Delete", True, [reference("StatefulSet", "former")], None),
        ("Delete", "Delete", False, [reference("Pod", "former")], None),
        ("Delete", "Delete", True, [OTHER], ["x", "set"]),
        ("Delete", "Delete", True, [{**OTHER, "controller": True}], None),
        ("Delete", "Delete", True, [{**OTHER, "controller": True}, SET], ["x"]),
    ],
)
def test_a_claim_belongs_to_whom_the_policy_says(
    deleted: str, scaled: str, is_wanted: bool, owners: list[dict[str, Any]], expected: list[str] | None
) -> None:
    found = owners_wanted(claim(*owners), stateful(deleted, scaled), POD, is_wanted=is_wanted)
    assert (None if found is None else [each["uid"] for each in found]) == expected


def test_a_claim_of_a_former_pod_has_to_go_before_there_is_another() -> None:
    assert is_stale(claim(reference("Pod", "former")), stateful("Retain", "Delete"), "web-0")
    assert not is_stale(claim(reference("Pod", "former")), stateful("Delete", "Retain"), "web-0")
    assert not is_stale(claim(SET), stateful("Retain", "Delete"), "web-0")


def test_claims_are_made_with_their_names_labels_and_owner() -> None:
    (made,) = claims_of(stateful("Delete", "Retain"), 7)
    assert made["metadata"]["name"] == "data-web-7"
    assert made["metadata"]["labels"] == {"app": "web"}
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == ["set"]
    (kept,) = claims_of(stateful("Retain", "Delete"), 7)
    assert "ownerReferences" not in kept["metadata"]
