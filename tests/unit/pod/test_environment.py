from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import ResourceList, parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.env import environment, expand_all, references
from pykubelet.pod.unsupported import Unsupported

NODE: ResourceList = {"cpu": parse("3920m"), "memory": parse("7Gi"), "ephemeral-storage": parse("10Gi")}


def container(*env: dict[str, Any], **fields: Any) -> Container:
    return codec.convert(Container, {"name": "c", "env": list(env), **fields})


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, **more: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": name, **more}}}


def value(wanted: Container, pod: Pod | None = None, **ips: tuple[str, ...]) -> str:
    return dict(environment(pod or make_pod(), wanted, allocatable=NODE, **ips))["X"]


# --- plain values


def test_a_value_may_refer_to_the_variables_before_it_and_to_no_others() -> None:
    wanted = container(
        {"name": "A", "value": "$(B)"},
        {"name": "B", "value": "1"},
        {"name": "C", "value": "$(A) $(B) $$(B)"},
    )
    assert environment(make_pod(), wanted, allocatable=NODE) == (("A", "$(B)"), ("B", "1"), ("C", "$(B) 1 $(B)"))


def test_a_value_may_refer_to_what_a_reference_gave() -> None:
    wanted = container({**field("metadata.name"), "name": "NAME"}, {"name": "X", "value": "i am $(NAME)"})
    assert value(wanted) == "i am web"


def test_of_two_values_for_one_name_the_later_counts_and_may_use_the_earlier() -> None:
    wanted = container({"name": "P", "value": "/bin"}, {"name": "Q"}, {"name": "P", "value": "$(P):/sbin"})
    assert environment(make_pod(), wanted, allocatable=NODE) == (("P", "/bin:/sbin"), ("Q", ""))


def test_a_value_goes_before_a_source() -> None:
    assert value(container({**field("metadata.name"), "value": "plain"})) == "plain"


# --- fields of the pod


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-web"),
        ("metadata.labels['app']", "shop"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a[b]c']", "brackets"),
        ("metadata.annotations['example.com/x']", "y"),
        ("spec.nodeName", "n1"),
        ("spec.host", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.0.0.7"),
        ("status.podIPs", "10.0.0.7,fd00::7"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
    ],
)
def test_a_container_may_be_told_a_field_of_its_pod(path: str, expected: str) -> None:
    pod = make_pod(labels={"app": "shop"}, annotations={"a[b]c": "brackets", "example.com/x": "y"})
    pod = changed(pod, spec=changed(pod.spec, service_account_name="robot"))
    found = value(container(field(path)), pod, pod_ips=("10.0.0.7", "fd00::7"), host_ips=("192.0.2.1", "2001:db8::1"))
    assert found == expected


@pytest.mark.parametrize("path", ["spec.restartPolicy", "metadata.labels", "metadata.labels['x", "spec['x']", ""])
def test_other_fields_are_refused_with_the_name_of_the_variable(path: str) -> None:
    with pytest.raises(Invalid, match=r'env "X": .* is not a field') as raised:
        value(container(field(path)))
    assert not isinstance(raised.value, Unsupported)


def test_fields_of_another_version_are_refused() -> None:
    reference = {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}
    with pytest.raises(Invalid, match="v2"):
        value(container({"name": "X", "valueFrom": reference}))


def test_a_pod_without_an_address_yet_has_an_empty_one() -> None:
    assert value(container(field("status.podIP"))) == ""


def test_on_the_hosts_network_the_hosts_address_is_the_pods() -> None:
    pod = make_pod()
    pod = changed(pod, spec=changed(pod.spec, host_network=True))
    assert value(container(field("status.podIP")), pod, host_ips=("192.0.2.1",)) == "192.0.2.1"


# --- resources

RESOURCES = {"limits": {"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "250m"}}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (resource("limits.cpu"), "2"),
        (resource("limits.cpu", divisor="1m"), "1500"),
        (resource("limits.cpu", divisor="0"), "2"),
        (resource("requests.cpu"), "1"),
        (resource("requests.cpu", divisor="100m"), "3"),
        (resource("limits.memory"), "104857600"),
        (resource("limits.memory", divisor="1Mi"), "100"),
        (resource("limits.memory", divisor="1Gi"), "1"),
        (resource("requests.memory"), "0"),
        (resource("limits.ephemeral-storage", divisor="1Gi"), "10"),
        (resource("requests.ephemeral-storage"), "0"),
        (resource("limits.hugepages-2Mi"), "4194304"),
        (resource("requests.hugepages-2Mi"), "0"),
    ],
)
def test_a_container_may_be_told_its_limits_and_requests_rounded_up(reference: dict[str, Any], expected: str) -> None:
    assert value(container(reference, resources=RESOURCES)) == expected


def test_without_a_limit_the_node_is_the_limit() -> None:
    assert value(container(resource("limits.cpu", divisor="1m"))) == "3920"
    assert value(container(resource("limits.memory", divisor="1Gi"))) == "7"
    assert value(container(resource("limits.hugepages-2Mi"))) == "0"


def test_without_a_limit_of_its_own_a_container_has_its_pods() -> None:
    pod = make_pod()
    spec = codec.convert(PodSpec, {"containers": [], "resources": {"limits": {"memory": "1Gi"}}})
    pod = changed(pod, spec=spec)
    assert value(container(resource("limits.memory", divisor="1Mi")), pod) == "1024"
    assert value(container(resource("limits.cpu", divisor="1m")), pod) == "3920"


def test_another_container_can_be_asked_about() -> None:
    pod = make_pod()
    spec = {
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}, {"name": "b"}],
        "initContainers": [{"name": "i"}],
    }
    pod = changed(pod, spec=codec.convert(PodSpec, spec))
    assert value(container(resource("limits.cpu", containerName="a")), pod) == "2"
    assert value(container(resource("limits.cpu", containerName="b")), pod) == "4"
    assert value(container(resource("limits.cpu", containerName="i")), pod) == "0"
    with pytest.raises(Invalid, match='env "X": the pod has no container "z"'):
        value(container(resource("limits.cpu", containerName="z")), pod)


@pytest.mark.parametrize("name", ["limits.gpu", "cpu", "usage.cpu", ""])
def test_other_resources_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not a resource"):
        value(container(resource(name)))


# --- what is not there yet


@pytest.mark.parametrize("optional", [True, False])
@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("secretKeyRef", {"name": "db", "key": "password"}),
        ("configMapKeyRef", {"name": "conf", "key": "level"}),
        ("fileKeyRef", {"volumeName": "v", "path": "f", "key": "K"}),
    ],
)
def test_a_variable_that_cannot_be_provided_is_named(kind: str, reference: dict[str, Any], optional: bool) -> None:
    wanted = container({"name": "PASSWORD", "valueFrom": {kind: {**reference, "optional": optional}}})
    with pytest.raises(Unsupported) as raised:
        environment(make_pod(), wanted, allocatable=NODE)
    assert str(raised.value) == f'env "PASSWORD" needs {kind}, which this version cannot provide yet'


@pytest.mark.parametrize("kind", ["secretRef", "configMapRef"])
def test_whole_objects_as_environment_are_named_too(kind: str) -> None:
    wanted = container(envFrom=[{kind: {"name": "conf", "optional": True}}])
    with pytest.raises(Unsupported) as raised:
        environment(make_pod(), wanted, allocatable=NODE)
    assert str(raised.value) == f'envFrom needs {kind} "conf", which this version cannot provide yet'


# --- words


def test_commands_are_expanded_with_the_whole_environment() -> None:
    env = (("A", "1"), ("B", "2"))
    assert expand_all(("$(A)", "x$(B)", "$(C)", "$$(A)"), env) == ("1", "x2", "$(C)", "$(A)")
    assert expand_all((), env) == ()


def test_the_names_that_a_text_refers_to() -> None:
    assert references("a/$(B)/$(C)-$$(D)$(") == ("B", "C")
    assert references("") == ()
