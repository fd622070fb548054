"""The documents that describe the API: discovery and OpenAPI in all their forms, and the schemas behind them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykubelet.apiserver.discovery import discovery
from pykubelet.apiserver.discovery.openapi import roots, v2_document, v3_document, v3_hash, v3_index
from pykubelet.apiserver.schema.catalogue import catalogue, record_of, schema_of
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.schema import Record, empty, unknown_fields

RESOURCES = Resources()


def v3(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(v3_document(roots(RESOURCES)[path]))
    return document


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):  # there is a type with a field of that name
                yield inner.rpartition("/")[2]
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


# --- schemas


def test_every_kind_with_a_table_entry_has_a_type() -> None:
    assert [each.kind for each in RESOURCES if record_of(each.api_version, each.kind) is None] == []


def test_unknown_fields_are_named_with_their_place() -> None:
    pod = {"spec": {"containers": [{"name": "c", "imagee": "x"}], "nodeSelector": {"any": "thing"}}, "bogus": 1}
    assert sorted(unknown_fields(pod, schema_of("v1", "Pod"))) == ["bogus", "spec.containers[0].imagee"]
    assert list(unknown_fields({"any": {"thing": 1}}, schema_of("example.com/v1", "Widget"))) == []


def test_an_empty_object_has_what_is_always_written() -> None:
    assert empty(schema_of("v1", "Pod")) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_a_resource_knows_its_parts() -> None:
    (pods,) = (each for each in RESOURCES if (each.group, each.plural) == ("", "pods"))
    assert pods.subresource("status") is not None
    assert pods.subresource("bogus") is None


# --- discovery


def test_the_core_group_is_told_as_a_real_server_tells_it() -> None:
    listed = discovery.resource_list(RESOURCES, "", "v1")
    assert listed is not None
    entries = {each["name"]: each for each in listed["resources"]}
    assert entries["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    assert entries["pods/eviction"]["group"] == "policy"
    assert entries["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert "deletecollection" not in entries["namespaces"]["verbs"]


def test_groups_name_their_versions_and_unknown_ones_are_not_there() -> None:
    assert discovery.group(RESOURCES, "node.k8s.io") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "node.k8s.io",
        "versions": [{"groupVersion": "node.k8s.io/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "node.k8s.io/v1", "version": "v1"},
    }
    names = [each["name"] for each in discovery.group_list(RESOURCES)["groups"]]
    assert "coordination.k8s.io" in names
    assert "" not in names
    assert discovery.group(RESOURCES, "") is None
    assert discovery.group(RESOURCES, "bogus") is None
    assert discovery.resource_list(RESOURCES, "node.k8s.io", "v2") is None


def test_the_aggregated_form_has_all_groups_at_once() -> None:
    core = discovery.aggregated(RESOURCES, is_core=True)
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert [item["metadata"] for item in core["items"]] == [{}]
    pods = next(each for each in core["items"][0]["versions"][0]["resources"] if each["resource"] == "pods")
    assert pods["scope"] == "Namespaced"
    assert {"group": "policy", "version": "v1", "kind": "Eviction"} in [
        part["responseKind"] for part in pods["subresources"]
    ]
    others = discovery.aggregated(RESOURCES, is_core=False, version="v2beta1")
    assert others["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert "metrics.k8s.io" in [item["metadata"]["name"] for item in others["items"]]


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", None),
        ("application/json", None),
        ("*/*", None),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "v2"),
        ("application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io", "v2beta1"),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList, application/json", None),
        ("application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", None),
        ("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", None),
    ],
)
def test_the_form_of_discovery_is_what_the_client_likes_best(accept: str, version: str | None) -> None:
    assert discovery.aggregated_version(accept) == version


# --- OpenAPI


def test_every_reference_in_every_document_leads_somewhere() -> None:
    for path in roots(RESOURCES):
        whole = v3(path)
        assert set(references(whole)) <= whole["components"]["schemas"].keys()
    second = v2_document(RESOURCES)
    assert set(references(second)) <= second["definitions"].keys()


def test_the_index_leads_to_documents_by_their_hash() -> None:
    here = roots(RESOURCES)
    index = v3_index(here)["paths"]
    assert index.keys() == here.keys()
    url = index["apis/node.k8s.io/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/node.k8s.io/v1?hash={v3_hash(here['apis/node.k8s.io/v1'])}"
    assert v3_index(roots(Resources())) == v3_index(here), "the hash of the same must be the same"
    assert v3_hash(here["apis/node.k8s.io/v1"], version="v9") not in url


def test_types_say_how_they_merge_and_which_kind_they_are() -> None:
    schemas = v3("api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "version": "v1", "kind": "Pod"}
    ]
    assert schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"] == "atomic"
    claim = schemas["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"]
    assert claim["x-kubernetes-map-type"] == "granular"


def test_paths_say_which_kind_they_are_about_and_take_field_validation() -> None:
    for paths in (v3("api/v1")["paths"], v2_document(RESOURCES)["paths"]):
        patch = paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
        assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
        assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
        assert "/api/v1/nodes/{name}/status" in paths
        assert paths["/api/v1/namespaces/{namespace}/pods/{name}/exec"]["get"]["x-kubernetes-action"] == "connect"


def test_operations_have_ids_of_their_own() -> None:
    ids = [
        operation["operationId"]
        for entry in v2_document(RESOURCES)["paths"].values()
        for method, operation in entry.items()
        if method != "parameters"
    ]
    assert len(ids) == len(set(ids))


def test_the_common_types_and_fields_are_described() -> None:
    for kind in ("Pod", "Node", "Namespace", "Secret", "ConfigMap", "Service"):
        record = record_of("v1", kind)
        assert isinstance(record, Record)
        assert record.description
    spec = catalogue()["io.k8s.api.core.v1.PodSpec"]
    container = catalogue()["io.k8s.api.core.v1.Container"]
    assert [name for name, field in container.fields.items() if not field.description] == []
    assert [name for name, field in spec.fields.items() if not field.description] == []
