"""The template that pods are made of."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of
from pykubelet.api.codec import DecodeError
from pykubelet.apiserver.strategies.pod_templates import normal_template, selection_faults, template_faults


def normal(**spec: Any) -> dict[str, Any]:
    containers = [
        {"name": "a", "image": "b:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}
    ]
    return normal_template({"spec": {"containers": containers, **spec}}, "spec.template")


def test_a_template_has_the_defaults_of_a_pod_but_those_that_a_pod_gets_when_it_is_made() -> None:
    made = normal(hostNetwork=True, serviceAccountName="x")
    spec, (container,) = made["spec"], made["spec"]["containers"]
    assert made["metadata"] == {}
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["securityContext"] == {}
    assert spec["serviceAccount"] == "x"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in spec
    assert normal_template(made, "spec.template") == made


def test_what_cannot_be_read_is_named_with_its_place() -> None:
    with pytest.raises(DecodeError, match=r"spec\.template\.spec\.hostNetwork"):
        normal(hostNetwork="yes")


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"metadata": {"labels": {"a b": "c"}}}, "spec.template.labels"),
        ({"metadata": {"annotations": {"a b": "c"}}}, "spec.template.annotations"),
        ({"spec": {"containers": []}}, "spec.template.spec.containers"),
        (
            {
                "spec": {
                    "containers": [{"name": "a", "image": "b"}],
                    "ephemeralContainers": [{"name": "x", "image": "y"}],
                }
            },
            "spec.template.spec.ephemeralContainers",
        ),
    ],
)
def test_what_is_wrong_with_a_template_is_named(template: dict[str, Any], field: str) -> None:
    made = normal_template({"spec": {"containers": [{"name": "a", "image": "b"}]}, **template}, "spec.template")
    assert field in [fault.field for fault in template_faults(made, "spec.template")]


def test_a_selector_has_to_find_the_pods() -> None:
    template = {"metadata": {"labels": {"app": "web"}}}
    assert list(selection_faults({"matchLabels": {"app": "web"}}, template)) == []
    (fault,) = selection_faults({"matchLabels": {"app": "db"}}, template)
    assert fault.field == "spec.template.metadata.labels"


def test_a_template_that_is_stored_by_itself_is_filled_in_and_checked() -> None:
    templates = strategy_of("", "podtemplates")
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    stored = made(templates, template={"metadata": {"labels": {"a": "b"}}, "spec": spec})
    assert stored["template"]["spec"]["restartPolicy"] == "Always"
    assert faults(templates, stored) == []
    assert "template.spec.containers" in faults(templates, made(templates, template={}))
