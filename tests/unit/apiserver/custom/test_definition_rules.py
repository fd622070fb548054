"""Definitions that cannot be served as they are, each refused with its place."""

import time
from typing import Any

import pytest

from kit.custom_resources import definition
from pykubelet.apiserver.custom.definition_rules import (
    approval_faults,
    change_faults,
    definition_faults,
    status_faults,
)

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
SCHEMA = "spec.versions[0].schema.openAPIV3Schema"


def spec(**changes: Any) -> dict[str, Any]:
    made = definition()["spec"]
    made["names"] |= {"singular": "widget", "listKind": "WidgetList"}
    return {**made, **changes}


def version(**changes: Any) -> dict[str, Any]:
    return spec(versions=[{**definition()["spec"]["versions"][0], **changes}])


def schema(**properties: Any) -> dict[str, Any]:
    return version(schema={"openAPIV3Schema": {"type": "object", "properties": properties}})


def keyed(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    return {**found, **more}


def ruled(rule: str, kind: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**(kind or WHOLE), "x-kubernetes-validations": [{"rule": rule, **more}]}


def test_a_good_one_has_no_faults() -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": WHOLE}}
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    good = schema(
        spec={
            "type": "object",
            "properties": {
                "list": keyed(item),
                "either": either,
                "map": {"type": "object", "additionalProperties": TEXT},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "size": {**WHOLE, "default": 3, "minimum": 1, "oneOf": [{"maximum": 5}, {"minimum": 9}]},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"kind": TEXT}},
                "ruled": ruled("self > 1 && self < 9", message="no", reason="FieldValueInvalid"),
            },
        },
        metadata={"type": "object", "properties": {"name": {**TEXT, "maxLength": 10}}},
    )

    assert list(definition_faults(good)) == []


@pytest.mark.parametrize(
    ("given", "place", "said"),
    [
        (spec(group=""), "spec.group", ""),
        (spec(group="nodot"), "spec.group", "at least one dot"),
        (spec(group="Upper.com"), "spec.group", ""),
        (spec(scope="Everywhere"), "spec.scope", "must be one of Cluster, Namespaced"),
        (spec(preserveUnknownFields=True), "spec.preserveUnknownFields", "cannot set to true"),
        (
            spec(names={"plural": "widgets", "singular": "w", "kind": "W", "listKind": "W"}),
            "spec.names.listKind",
            "same",
        ),
        (spec(names={"plural": "Widgets", "singular": "w", "kind": "W", "listKind": "L"}), "spec.names.plural", ""),
        (spec(versions=[]), "spec.versions", "exactly one version"),
        (version(storage=False), "spec.versions", "exactly one version"),
        (version(name="V1"), "spec.versions[0].name", ""),
        (version(schema=None), SCHEMA, "schemas are required"),
        (version(deprecationWarning="x"), "spec.versions[0].deprecationWarning", "deprecated versions"),
        (version(subresources={"scale": {}}), "spec.versions[0].subresources.scale.specReplicasPath", ""),
        (
            version(subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.y"}}),
            "spec.versions[0].subresources.scale.specReplicasPath",
            "under .spec",
        ),
        (
            version(additionalPrinterColumns=[{"name": "x", "type": "text", "jsonPath": ".x"}]),
            "spec.versions[0].additionalPrinterColumns[0].type",
            "must be one of",
        ),
        (
            version(additionalPrinterColumns=[{"name": "x", "type": "string", "jsonPath": "x[["}]),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath",
            "invalid path",
        ),
        (version(selectableFields=[{"jsonPath": ".spec.x"}]), "spec.versions[0].selectableFields[0].jsonPath", "valid"),
        (spec(conversion={"strategy": "Magic"}), "spec.conversion.strategy", "must be one of"),
        (spec(conversion={"strategy": "Webhook"}), "spec.conversion.webhook.clientConfig", "required when"),
        (
            spec(
                conversion={
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "http://x.io"}, "conversionReviewVersions": ["v1"]},
                }
            ),
            "spec.conversion.webhook.clientConfig.url",
            "'https' is the only allowed",
        ),
        # --- schemas
        (schema(a={}), f"{SCHEMA}.properties[a].type", "must not be empty"),
        (schema(a={"type": "text"}), f"{SCHEMA}.properties[a].type", "must be one of"),
        (schema(a={"type": "array"}), f"{SCHEMA}.properties[a].items", "must be specified"),
        (
            schema(a={"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT}),
            f"{SCHEMA}.properties[a].additionalProperties",
            "mutual exclusive",
        ),
        (
            schema(a={**TEXT, "pattern": "(?=x)"}),
            f"{SCHEMA}.properties[a].pattern",
            "must be a valid regular expression",
        ),
        (schema(a={**TEXT, "$ref": "#/x"}), f"{SCHEMA}.properties[a].$ref", "not supported"),
        (
            schema(a={"type": "array", "items": TEXT, "uniqueItems": True}),
            f"{SCHEMA}.properties[a].uniqueItems",
            "square",
        ),
        (schema(a={**WHOLE, "anyOf": [{"type": "integer"}]}), f"{SCHEMA}.properties[a].anyOf[0].type", "structural"),
        (schema(a={**WHOLE, "allOf": [{"default": 1}]}), f"{SCHEMA}.properties[a].allOf[0].default", "structural"),
        (
            schema(a={"type": "object", "x-kubernetes-embedded-resource": True}),
            f"{SCHEMA}.properties[a].properties",
            "",
        ),
        (
            schema(a={**TEXT, "x-kubernetes-preserve-unknown-fields": False}),
            f"{SCHEMA}.properties[a].x-kubernetes-preserve-unknown-fields",
            "true or undefined",
        ),
        (
            schema(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            f"{SCHEMA}.properties[metadata]",
            "implicitly specified",
        ),
        (schema(a={**TEXT, "x-kubernetes-list-type": "set"}), f"{SCHEMA}.properties[a].type", "must be array"),
        (schema(a=keyed(TEXT)), f"{SCHEMA}.properties[a].items.type", "must be object"),
        (
            schema(a=keyed({"type": "object", "properties": {"k": TEXT}})),
            f"{SCHEMA}.properties[a].items.properties[k].default",
            "must have a default",
        ),
        (
            schema(a=keyed({"type": "object", "properties": {"x": TEXT}})),
            f"{SCHEMA}.properties[a].x-kubernetes-list-map-keys",
            "names of item properties",
        ),
        # --- defaults
        (schema(a={**WHOLE, "default": "x"}), f"{SCHEMA}.properties[a].default", "must be of type integer"),
        (schema(a={**WHOLE, "default": 9, "maximum": 3}), f"{SCHEMA}.properties[a].default", "less than or equal"),
        (
            schema(a={"type": "object", "properties": {"b": TEXT}, "default": {"c": 1}}),
            f"{SCHEMA}.properties[a].default",
            "unknown fields",
        ),
        (schema(a=ruled("self < 5", {**WHOLE, "default": 9})), f"{SCHEMA}.properties[a].default", "failed rule"),
        (schema(kind={**TEXT, "default": "X"}), f"{SCHEMA}.properties[kind].default", "top-level kind"),
        # --- rules
        (
            schema(a=ruled("self.b == 1", {"type": "object", "properties": {"c": WHOLE}})),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].rule",
            "undefined field 'b'",
        ),
        (
            schema(a=ruled("self + 1")),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].rule",
            "must evaluate to a bool",
        ),
        (schema(a=ruled(" ")), f"{SCHEMA}.properties[a].x-kubernetes-validations[0].rule", "not specified"),
        (
            schema(a=ruled("true", reason="Because")),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].reason",
            "must be one of",
        ),
        (
            schema(a=ruled("true", fieldPath=".x")),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].fieldPath",
            "valid path",
        ),
        (
            schema(a=ruled("true", messageExpression="1")),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].messageExpression",
            "must evaluate to",
        ),
        (
            schema(a=ruled("true", optionalOldSelf=True)),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].optionalOldSelf",
            "oldSelf is not used",
        ),
        (
            schema(a={"type": "array", "items": ruled("self == oldSelf")}),
            f"{SCHEMA}.properties[a].items.x-kubernetes-validations[0].rule",
            "uncorrelatable",
        ),
        (
            schema(a=ruled("nothing(self)")),
            f"{SCHEMA}.properties[a].x-kubernetes-validations[0].rule",
            "undeclared reference to 'nothing'",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: dict[str, Any], place: str, said: str) -> None:
    found = list(definition_faults(given))

    assert place in [each.field for each in found], found
    assert any(said in each.detail for each in found if each.field == place), found


def test_a_status_of_its_own_leaves_little_for_the_root() -> None:
    whole = {"type": "object", "properties": {}, "minProperties": 1}
    (fault,) = definition_faults(version(schema={"openAPIV3Schema": whole}, subresources={"status": {}}))

    assert (fault.field, "at the root" in fault.detail) == (SCHEMA, True)


def test_schemas_that_are_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}}

    (fault,) = definition_faults(version(schema={"openAPIV3Schema": deep}))

    assert "nested deeper" in fault.detail


def test_versions_that_are_stored_have_to_stay() -> None:
    obj = {"spec": spec(), "status": {"storedVersions": ["v0", "v1"]}}

    assert [each.field for each in status_faults(obj)] == ["status.storedVersions[0]"]
    assert [each.field for each in status_faults({**obj, "status": {}})] == ["status.storedVersions"]


def test_groups_of_kubernetes_need_a_word_of_approval() -> None:
    def faults(group: str, **annotations: str) -> list[str]:
        obj = {"metadata": {"annotations": annotations}, "spec": {"group": group}}
        return [each.type for each in approval_faults(obj)]

    assert faults("example.com") == []
    assert faults("x.k8s.io") == ["FieldValueRequired"]
    assert faults("x.k8s.io", **{"api-approved.kubernetes.io": "unapproved, experimental"}) == []
    assert faults("x.k8s.io", **{"api-approved.kubernetes.io": "https://x.io/pull/1"}) == []
    assert faults("x.k8s.io", **{"api-approved.kubernetes.io": "sure"}) == ["FieldValueInvalid"]


def test_who_is_served_keeps_its_scope_and_kind() -> None:
    other = spec(scope="Cluster")

    assert list(change_faults(other, spec(), is_established=False)) == []
    assert [each.field for each in change_faults(other, spec(), is_established=True)] == ["spec.scope"]
    assert [each.field for each in change_faults(spec(group="b.c"), spec(), is_established=False)] == ["spec.group"]


def test_patterns_that_take_long_to_make_are_refused_together() -> None:
    """Each for itself is fine: a tenth of a second, while which nobody else is answered."""
    heavy = {f"p{number}": {**TEXT, "pattern": f"x{number}(a{{1,900}}){{4}}" * 4} for number in range(300)}
    began = time.monotonic()
    (fault,) = definition_faults(schema(**heavy))
    assert (fault.field, fault.type) == ("spec.versions", "FieldValueForbidden")
    assert time.monotonic() - began < 10
    light = {f"p{number}": {**TEXT, "pattern": f"^[a-z0-9.-]{{1,63}}{number}$"} for number in range(300)}
    assert not list(definition_faults(schema(**light)))
