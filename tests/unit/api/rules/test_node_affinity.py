"""Node selector, required affinity, taints: rule by rule."""

from typing import Any

import pytest

from pykubelet.api.rules.node_affinity import is_attracted
from unit.pod.admission_pods import pod

LABELS = {"zone": "a", "cores": "7", "disk": "", "odd": "1_0"}


def attracted(node_name: str = "n1", **spec: Any) -> bool:
    return is_attracted(pod(**spec).spec, node_name, LABELS)


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        pytest.param({}, True, id="none selects every node"),
        pytest.param({"zone": "a"}, True, id="a label that is there"),
        pytest.param({"zone": "b"}, False, id="another value"),
        pytest.param({"zone": "a", "gpu": "yes"}, False, id="all labels have to be there"),
        pytest.param({"disk": ""}, True, id="an empty value that is there"),
        pytest.param({"gpu": ""}, False, id="an empty value is not an absent label"),
    ],
)
def test_node_selector(selector: dict[str, str], holds: bool) -> None:
    assert attracted(nodeSelector=selector) is holds


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        pytest.param([], False, id="no term selects no node"),
        pytest.param([{}], False, id="an empty term selects no node"),
        pytest.param([{}, label("zone", "In", "a")], True, id="one term is enough"),
        pytest.param([label("zone", "In", "b", "a")], True, id="in"),
        pytest.param([label("zone", "In", "b")], False, id="not in"),
        pytest.param([label("zone", "NotIn", "b")], True, id="notin another"),
        pytest.param([label("gpu", "NotIn", "b")], True, id="notin without the label"),
        pytest.param([label("zone", "Exists")], True, id="exists"),
        pytest.param([label("gpu", "DoesNotExist")], True, id="does not exist"),
        pytest.param([label("cores", "Gt", "6")], True, id="greater"),
        pytest.param([label("cores", "Gt", "7")], False, id="not greater than itself"),
        pytest.param([label("cores", "Lt", "10")], True, id="less, as a number"),
        pytest.param([label("zone", "Lt", "10")], False, id="text is not less than a number"),
        pytest.param([label("odd", "Lt", "99")], False, id="an underscore makes no number"),
        pytest.param([label("gpu", "Lt", "10")], False, id="an absent label is not less"),
        pytest.param([label("cores", "Lt", "99999999999999999999")], False, id="a number beyond 64 bits is none"),
        pytest.param([label("zone", "Like", "a")], False, id="an unknown operator holds nowhere"),
        pytest.param([label("zone", "In")], False, id="in nothing holds nowhere"),
        pytest.param([label("gpu", "NotIn", "b@d")], False, id="a value that no label has makes no sense"),
        pytest.param([label("bad key", "DoesNotExist")], False, id="a key that no label has makes no sense"),
        pytest.param([label("zone", "Like"), label("zone", "Exists")], True, id="nonsense does not spoil other terms"),
        pytest.param([field("metadata.name", "In", "n1")], True, id="the node by its name"),
        pytest.param([field("metadata.name", "In", "n2")], False, id="another node by its name"),
        pytest.param([field("metadata.name", "NotIn", "n2")], True, id="any node but one"),
        pytest.param([field("metadata.name", "In", "n1", "n2")], False, id="a field takes one value"),
        pytest.param([field("metadata.name", "Exists")], False, id="a field is compared, not looked for"),
        pytest.param([field("spec.x", "In", "n1")], False, id="a field that no node has is empty"),
        pytest.param([{**label("zone", "In", "b"), **field("metadata.name", "In", "n1")}], False, id="both parts hold"),
    ],
)
def test_required_affinity(terms: list[dict[str, Any]], holds: bool) -> None:
    assert attracted(affinity=required(*terms)) is holds


def test_selector_and_affinity_both_have_to_hold() -> None:
    assert not attracted(nodeSelector={"zone": "b"}, affinity=required(label("zone", "Exists")))


def test_preferences_bind_nobody() -> None:
    wish = [{"weight": 1, "preference": label("zone", "In", "b")}]
    assert attracted(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}})


def test_a_node_without_a_name_has_no_fields_to_compare() -> None:
    assert attracted(node_name="", affinity=required(field("metadata.name", "In", "n2")))
