"""The documents that describe the API: discovery and OpenAPI in all their forms, and the schemas behind them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykubelet.apiserver.discovery import discovery
from pykubelet.apiserver.discovery.openapi import v2_document, v3_documents, v3_hash, v3_index
from pykubelet.apiserver.schema.catalogue import catalogue, record_of, schema_of
from pykubelet.apiserver.schema.kinds import RESOURCES
from pykubelet.apiserver.schema.list_facts import ATOMIC_MAPS, ATOMIC_TYPES, DEFAULTS, GRANULAR_FIELDS, LISTS
from pykubelet.apiserver.schema.schema import Record, empty, normal, unknown_fields


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner.rpartition("/")[2]
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def short_name(record: Record) -> str:
    return record.name.rpartition(".")[2]


# --- schemas


def test_every_fact_about_a_field_is_about_a_field_that_there_is() -> None:
    fields = {f"{short_name(record)}.{name}" for record in catalogue().values() for name in record.fields}
    facts = LISTS.keys() | ATOMIC_MAPS | GRANULAR_FIELDS | DEFAULTS.keys()
    assert facts <= fields
    assert {short_name(record) for record in catalogue().values()} >= ATOMIC_TYPES


def test_every_kind_with_a_table_entry_has_a_type() -> None:
    assert [each.kind for each in RESOURCES if record_of(each.api_version, each.kind) is None] == []


def test_unknown_fields_are_named_with_their_place() -> None:
    pod = {"spec": {"containers": [{"name": "c", "imagee": "x"}], "nodeSelector": {"any": "thing"}}, "bogus": 1}
    assert sorted(unknown_fields(pod, schema_of("v1", "Pod"))) == ["bogus", "spec.containers[0].imagee"]
    assert list(unknown_fields({"any": {"thing": 1}}, schema_of("example.com/v1", "Widget"))) == []


def test_an_empty_object_has_what_is_always_written() -> None:
    assert empty(schema_of("v1", "Pod")) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_an_object_is_stored_without_what_says_nothing_and_with_what_is_always_said() -> None:
    pod = {
        "metadata": {"name": "p", "labels": {}, "finalizers": None, "generateName": ""},
        "spec": {
            "containers": [{"name": "c", "args": [], "env": [{"name": "E"}], "future": None}],
            "securityContext": {},
        },
        "extra": {"kept": None},
    }
    assert normal(pod, schema_of("v1", "Pod")) == {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": "E"}], "future": None, "resources": {}}],
            "securityContext": {},
        },
        "extra": {"kept": None},
        "status": {},
    }
    claim = {"spec": {"storageClassName": ""}}
    assert normal(claim, schema_of("v1", "PersistentVolumeClaim"))["spec"]["storageClassName"] == ""


def test_a_resource_knows_its_parts() -> None:
    (pods,) = (each for each in RESOURCES if (each.group, each.plural) == ("", "pods"))
    assert pods.subresource("status") is not None
    assert pods.subresource("bogus") is None


# --- discovery


def test_the_core_group_is_told_as_a_real_server_tells_it() -> None:
    listed = discovery.resource_list("", "v1")
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
    }
    assert entries["pods/eviction"]["group"] == "policy"
    assert entries["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert "deletecollection" not in entries["namespaces"]["verbs"]


def test_groups_name_their_versions_and_unknown_ones_are_not_there() -> None:
    assert discovery.group("node.k8s.io") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "node.k8s.io",
        "versions": [{"groupVersion": "node.k8s.io/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "node.k8s.io/v1", "version": "v1"},
    }
    names = [each["name"] for each in discovery.group_list()["groups"]]
    assert "coordination.k8s.io" in names
    assert "" not in names
    assert discovery.group("") is None
    assert discovery.group("bogus") is None
    assert discovery.resource_list("node.k8s.io", "v2") is None


def test_the_aggregated_form_has_all_groups_at_once() -> None:
    core = discovery.aggregated(is_core=True)
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert [item["metadata"] for item in core["items"]] == [{}]
    pods = next(each for each in core["items"][0]["versions"][0]["resources"] if each["resource"] == "pods")
    assert pods["scope"] == "Namespaced"
    assert {"group": "policy", "version": "v1", "kind": "Eviction"} in [
        part["responseKind"] for part in pods["subresources"]
    ]
    others = discovery.aggregated(is_core=False, version="v2beta1")
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
    for document in v3_documents().values():
        whole = json.loads(document)
        assert set(references(whole)) <= whole["components"]["schemas"].keys()
    second = v2_document()
    assert set(references(second)) <= second["definitions"].keys()


def test_the_index_leads_to_documents_by_their_hash() -> None:
    documents = v3_documents()
    index = v3_index(documents)["paths"]
    assert index.keys() == documents.keys()
    url = index["apis/node.k8s.io/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/node.k8s.io/v1?hash={v3_hash(documents['apis/node.k8s.io/v1'])}"
    assert v3_documents() == documents, "the hash of the same must be the same"


def test_types_say_how_they_merge_and_which_kind_they_are() -> None:
    schemas = json.loads(v3_documents()["api/v1"])["components"]["schemas"]
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
    for paths in (json.loads(v3_documents()["api/v1"])["paths"], v2_document()["paths"]):
        patch = paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
        assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
        assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
        assert "/api/v1/nodes/{name}/status" in paths
        assert paths["/api/v1/namespaces/{namespace}/pods/{name}/exec"]["get"]["x-kubernetes-action"] == "connect"


def test_operations_have_ids_of_their_own() -> None:
    ids = [
        operation["operationId"]
        for entry in v2_document()["paths"].values()
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
