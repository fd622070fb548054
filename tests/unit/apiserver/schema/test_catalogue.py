"""The generated facts, and whether the typed objects that decide agree with them."""

from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from pykubelet.api.meta import Status
from pykubelet.api.node import Node
from pykubelet.api.objects import ConfigMap, Event, Lease, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import Struct
from pykubelet.apiserver.schema.catalogue import META, catalogue, record_of
from pykubelet.apiserver.schema.kinds import built_in
from pykubelet.apiserver.schema.schema import ListOf, MapOf, Record, Schema


def pairs(struct: type[Struct], record: Record, seen: set[str]) -> Iterator[tuple[type[Struct], Record]]:
    """Each typed object with the type that the facts have for it."""
    if record.name in seen:
        return
    seen.add(record.name)
    yield struct, record
    for field in msgspec.structs.fields(struct):
        fact = record.fields.get(field.encode_name)
        inner = next(structs(field.type), None)
        if fact is not None and inner is not None and isinstance(within(fact.type), Record):
            known = within(fact.type)
            assert isinstance(known, Record)
            yield from pairs(inner, known, seen)


def structs(hint: Any) -> Iterator[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    elif get_origin(hint) in (Union, tuple) or get_args(hint):
        for each in get_args(hint):
            yield from structs(each)


def within(schema: Schema) -> Schema:
    return within(schema.items) if isinstance(schema, ListOf | MapOf) else schema


KINDS: dict[str, tuple[type[Struct], str]] = {
    "Pod": (Pod, "v1"),
    "Node": (Node, "v1"),
    "ConfigMap": (ConfigMap, "v1"),
    "Secret": (Secret, "v1"),
    "Event": (Event, "v1"),
    "Lease": (Lease, "coordination.k8s.io/v1"),
    "Status": (Status, "v1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_typed_objects_have_the_fields_that_the_facts_have(kind: str) -> None:
    struct, version = KINDS[kind]
    record = catalogue()[f"{META}.Status"] if kind == "Status" else record_of(version, kind)
    assert record is not None
    for typed, known in pairs(struct, record, set()):
        names = {field.encode_name for field in msgspec.structs.fields(typed)}
        assert names == set(known.fields), f"{typed.__name__} and {known.name}"


def test_every_kind_has_a_type_and_every_type_can_be_made() -> None:
    assert [each.kind for each in built_in() if record_of(each.api_version, each.kind) is None] == []
    for name in catalogue():
        assert catalogue()[name].name == name


def test_every_field_has_a_number_but_those_of_the_envelope() -> None:
    found = [
        f"{record.name}.{name}"
        for record in catalogue().values()
        for name, field in record.fields.items()
        if not field.number and name not in ("apiVersion", "kind")
    ]
    assert found == []


def test_a_type_may_be_made_of_itself() -> None:
    record = catalogue()["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"]
    assert record.fields["not"].type is record


def test_facts_say_how_lists_and_maps_merge() -> None:
    spec = catalogue()["io.k8s.api.core.v1.PodSpec"].fields
    containers, volumes = spec["containers"].type, spec["volumes"].type
    assert isinstance(containers, ListOf)
    assert isinstance(volumes, ListOf)
    assert (containers.relation, containers.keys, containers.merge_key) == ("map", ("name",), "name")
    assert volumes.retains_keys
    assert isinstance(spec["nodeSelector"].type, MapOf)
    assert spec["nodeSelector"].type.is_atomic
    assert catalogue()["io.k8s.api.core.v1.ContainerPort"].fields["protocol"].default == "TCP"
    assert spec["restartPolicy"].enum == ("Always", "Never", "OnFailure")
    strategy = catalogue()["io.k8s.api.apps.v1.DeploymentSpec"].fields["strategy"]
    assert strategy.patch_strategy == "retainKeys"


def test_what_protobuf_writes_as_one_is_a_way_of_numbers() -> None:
    assert catalogue()["io.k8s.api.core.v1.Volume"].fields["emptyDir"].number == (2, 2)
    assert catalogue()["io.k8s.api.core.v1.EphemeralContainer"].fields["image"].number == (1, 2)
