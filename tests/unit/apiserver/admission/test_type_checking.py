"""What the expressions of a policy have got wrong about the types of what it is for."""

from typing import Any

import pytest

from pykubelet.apiserver.admission.type_checking import expression_warnings, type_of
from pykubelet.apiserver.cel.types import ObjectType
from pykubelet.apiserver.schema.kinds import Resources

RESOURCES = Resources()


def policy(*expressions: str, groups: tuple[str, ...] = ("apps",), **more: Any) -> dict[str, Any]:
    rule = {"apiGroups": list(groups), "apiVersions": ["v1"], "resources": ["deployments", "pods"], "operations": ["*"]}
    validations = [{"expression": each} for each in expressions]
    return {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **more}


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas <= 5",
        "object.metadata.labels['a'] == 'b' && has(object.metadata.annotations)",
        "object.spec.template.spec.containers.all(c, c.image.startswith('x') || true)".replace(
            "startswith", "startsWith"
        ),
        "object.spec.strategy.rollingUpdate.maxSurge == '25%' || object.spec.strategy.rollingUpdate.maxSurge == 1",
        "oldObject == null || object.spec.replicas >= oldObject.spec.replicas",
        "quantity(object.spec.template.spec.containers[0].resources.limits['cpu']).isLessThan(quantity('2'))",
        "authorizer.requestResource.check('x').allowed() && request.userInfo.username != ''",
        "namespaceObject.metadata.name != 'x' && params == null",
        "object.metadata.creationTimestamp != ''",
    ],
)
def test_what_fits_is_not_warned_of(expression: str) -> None:
    assert expression_warnings(policy(expression), RESOURCES) == []


def test_a_field_that_is_not_there_is_named_with_its_place_and_kind() -> None:
    (found,) = expression_warnings(policy("true", "object.spec.replicsa > 1"), RESOURCES)
    assert found["fieldRef"] == "spec.validations[1].expression"
    assert found["warning"].startswith("apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:12: ")
    assert "undefined field 'replicsa'" in found["warning"]


def test_each_kind_is_looked_at_and_only_those_that_are_named() -> None:
    wrong = "object.spec.nodeName == ''"
    (found,) = expression_warnings(policy(wrong, groups=("", "apps")), RESOURCES)
    assert "Kind=Deployment" in found["warning"]
    assert "Kind=Pod" not in found["warning"]
    assert expression_warnings(policy("object.nothing", groups=("*",)), RESOURCES) == []


def test_types_that_do_not_go_together_messages_and_variables() -> None:
    spec = policy("variables.count > 'a'", variables=[{"name": "count", "expression": "object.spec.replicas"}])
    spec["validations"][0]["messageExpression"] = "object.spec.paused + 'x'"
    found = expression_warnings(spec, RESOURCES)
    assert [each["fieldRef"] for each in found] == [
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
    ]
    unsure = policy("variables.odd > 'a'", variables=[{"name": "odd", "expression": "object.nothing"}])
    assert expression_warnings(unsure, RESOURCES) == []


def test_parameters_have_their_type_too() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert expression_warnings(policy("params.data['a'] == 'b'", paramKind=kind), RESOURCES) == []
    (found,) = expression_warnings(policy("params.spec.a == 'b'", paramKind=kind), RESOURCES)
    assert "undefined field 'spec'" in found["warning"]
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing"}
    assert expression_warnings(policy("params.spec.a == 'b'", paramKind=unknown), RESOURCES) == []


def test_every_kind_there_is_has_a_type() -> None:
    for resource in RESOURCES:
        kind = type_of(resource.schema, {})
        assert not isinstance(kind, ObjectType) or kind.fields, resource
