from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import FILE_SOURCE, URL_SOURCE
from pykubelet.api.rules.well_known import HASH_ANNOTATION
from pykubelet.pod.lifecycle.static_pod import static_pod, static_uid

STAYS = {"operator": "Exists", "effect": "NoExecute"}


def uid(
    dump: str = "dump", node: str = "node-1", source: str = FILE_SOURCE, origin: str = "/manifests/web.yaml"
) -> str:
    return static_uid(dump, node, source, origin)


def made(source: str = FILE_SOURCE, node: str = "node-1", **pod: Any) -> dict[str, Any]:
    given = {"metadata": {"name": "web"}, **pod}
    result: dict[str, Any] = codec.to_builtins(static_pod(codec.convert(Pod, given), "the-uid", node, source))
    return result


def test_the_uid_belongs_to_a_node_and_a_place() -> None:
    uids = {
        uid(),
        uid("another dump"),
        uid(node="node-2"),
        uid(origin="/manifests/other.yaml"),
        uid(source=URL_SOURCE),
        uid(source=URL_SOURCE, origin="https://example.com/other"),
    }
    assert len(uids) == 6


def test_every_node_knows_a_pod_from_a_url_by_the_same_uid() -> None:
    """The node is part of the pod's name, and that is enough there: upstream does the same."""
    assert uid(source=URL_SOURCE, node="node-1") == uid(source=URL_SOURCE, node="node-2")


def test_the_name_carries_the_node_in_lower_case() -> None:
    assert made(node="Node-1.Example")["metadata"]["name"] == "web-node-1.example"
    assert made(node="Node-1.Example")["spec"]["nodeName"] == "Node-1.Example"


def test_the_uid_is_kept_in_the_pod_and_in_its_hash() -> None:
    meta = made(metadata={"name": "web", "annotations": {"note": "x"}})["metadata"]
    assert meta["uid"] == "the-uid"
    assert meta["annotations"] == {"note": "x", HASH_ANNOTATION: "the-uid"}


def test_a_pod_without_a_namespace_goes_to_default() -> None:
    assert made()["metadata"]["namespace"] == "default"
    assert made(metadata={"name": "a", "namespace": "kube-system"})["metadata"]["namespace"] == "kube-system"


def test_what_agents_note_in_pods_is_not_taken_over_from_a_manifest() -> None:
    notes = {f"kubernetes.io/config.{name}": "x" for name in ("mirror", "source", "seen")}
    meta = made(metadata={"name": "web", "annotations": {"note": "x", **notes}})["metadata"]
    assert meta["annotations"] == {"note": "x", HASH_ANNOTATION: "the-uid"}


def test_a_static_pod_starts_pending() -> None:
    assert made()["status"] == {"phase": "Pending"}
    assert made(status={"phase": "Failed", "message": "m"})["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [STAYS]),
        ([{"key": "a", "operator": "Exists"}], [{"key": "a", "operator": "Exists"}, STAYS]),
        ([{**STAYS, "key": "a"}], [{**STAYS, "key": "a"}, STAYS]),
        ([STAYS], [STAYS]),
        ([{**STAYS, "tolerationSeconds": 30}], [STAYS]),
        ([{**STAYS, "tolerationSeconds": 0}, {"key": "a"}], [STAYS, {"key": "a"}]),
    ],
)
def test_a_pod_from_a_file_tolerates_every_trouble_of_its_node_for_ever(
    given: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    assert made(spec={"tolerations": given})["spec"]["tolerations"] == expected


def test_a_pod_from_a_url_tolerates_what_it_says() -> None:
    assert "tolerations" not in made(URL_SOURCE)["spec"]
