from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import ResourceList, parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod.container.env import EnvObjects, environment, expand_all, references, wanted_objects
from pykubelet.pod.container.failures import Unsupported

NODE: ResourceList = {"cpu": parse("3920m"), "memory": parse("7Gi"), "ephemeral-storage": parse("10Gi")}


def container(*env: dict[str, Any], **fields: Any) -> Container:
    return codec.convert(Container, {"name": "c", "env": list(env), **fields})


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, **more: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": name, **more}}}


def value(wanted: Container, pod: Pod | None = None, **ips: Any) -> str:
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


# --- config maps, secrets, services


CONFIG = ConfigMap(data={"level": "debug", "my.key": "dotted"})
OBJECTS = EnvObjects(
    config_maps={"conf": CONFIG, "gone": None},
    secrets={"db": Secret(data={"password": b"hunter2", "binary": b"\xff", "nul": b"a\0b"}), "gone": None},
    services={"DB_SERVICE_HOST": "10.0.0.2", "level": "of a service"},
)


def key_ref(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}


def all_of(wanted: Container, objects: EnvObjects | None = OBJECTS) -> dict[str, str]:
    return dict(environment(make_pod(), wanted, allocatable=NODE, objects=objects))


def test_a_variable_may_be_a_key_of_a_config_map_or_a_secret() -> None:
    assert all_of(container(key_ref("configMapKeyRef", "conf", "level")))["X"] == "debug"
    assert all_of(container(key_ref("secretKeyRef", "db", "password")))["X"] == "hunter2"


@pytest.mark.parametrize("kind", ["configMapKeyRef", "secretKeyRef"])
@pytest.mark.parametrize("name", ["conf", "db", "gone"])
def test_what_is_optional_and_missing_is_left_out(kind: str, name: str) -> None:
    wanted = container({"name": "A", "value": "1"}, key_ref(kind, name, "nothing", optional=True))
    assert "X" not in all_of(wanted)


@pytest.mark.parametrize(
    ("wanted", "sort", "message"),
    [
        (key_ref("configMapKeyRef", "gone", "k"), NotFound, 'configmap "gone" not found'),
        (key_ref("secretKeyRef", "gone", "k"), NotFound, 'secret "gone" not found'),
        (key_ref("configMapKeyRef", "conf", "k"), NotFound, "couldn't find key k in ConfigMap default/conf"),
        (key_ref("secretKeyRef", "db", "k"), NotFound, "couldn't find key k in Secret default/db"),
    ],
)
def test_what_is_missing_is_told_in_upstreams_words(
    wanted: dict[str, Any], sort: type[Exception], message: str
) -> None:
    with pytest.raises(sort) as raised:
        all_of(container(wanted))
    assert str(raised.value) == message


@pytest.mark.parametrize("key", ["binary", "nul"])
def test_a_secret_that_is_not_text_is_refused_without_telling_it(key: str) -> None:
    with pytest.raises(Invalid, match=f"key {key} of Secret default/db .*: mount it as a file instead"):
        all_of(container(key_ref("secretKeyRef", "db", key)))


def test_whole_objects_come_first_with_their_prefix_and_may_be_referred_to() -> None:
    wanted = container(
        {"name": "P_level", "value": "was $(P_level)"},
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "conf"}}, {"configMapRef": {"name": "conf"}}],
    )
    assert environment(make_pod(), wanted, allocatable=NODE, objects=EnvObjects(config_maps={"conf": CONFIG})) == (
        ("P_level", "was debug"),
        ("P_my.key", "dotted"),
        ("level", "debug"),
        ("my.key", "dotted"),
    )
    secret = EnvObjects(secrets={"s": Secret(data={"A": b"1"})})
    assert all_of(container(envFrom=[{"secretRef": {"name": "s"}}]), secret) == {"A": "1"}


@pytest.mark.parametrize(("kind", "what"), [("secretRef", "secret"), ("configMapRef", "configmap")])
def test_a_whole_object_that_is_missing_is_told_unless_it_is_optional(kind: str, what: str) -> None:
    with pytest.raises(NotFound, match=f'^{what} "gone" not found$'):
        all_of(container(envFrom=[{kind: {"name": "gone"}}]))
    assert "A" not in all_of(container(envFrom=[{kind: {"name": "gone", "optional": True}}]))


def test_services_come_last_and_give_way_but_can_be_referred_to() -> None:
    wanted = container(
        {"name": "level", "value": "mine"}, {"name": "URL", "value": "http://$(DB_SERVICE_HOST) $(level)"}
    )
    assert environment(make_pod(), wanted, allocatable=NODE, objects=OBJECTS) == (
        ("level", "mine"),
        ("URL", "http://10.0.0.2 mine"),
        ("DB_SERVICE_HOST", "10.0.0.2"),
    )


def test_the_objects_that_have_to_be_fetched_are_named_once() -> None:
    wanted = container(
        key_ref("configMapKeyRef", "conf", "a"),
        key_ref("configMapKeyRef", "conf", "b"),
        key_ref("secretKeyRef", "db", "a"),
        {**key_ref("secretKeyRef", "unused", "a"), "value": "a value goes first"},
        envFrom=[{"secretRef": {"name": "whole"}}, {"configMapRef": {"name": "all"}}],
    )
    assert wanted_objects(wanted) == (("all", "conf"), ("whole", "db"))


@pytest.mark.parametrize("optional", [True, False])
def test_without_an_api_server_a_container_waits_for_what_it_cannot_have(optional: bool) -> None:
    for kind, what in (("secret", "secret"), ("configMap", "configMap")):
        complaint = f"couldn't get {what} default/x, no kubeClient defined"
        with pytest.raises(Invalid) as raised:
            all_of(container(key_ref(f"{kind}KeyRef", "x", "k", optional=optional)), None)
        assert str(raised.value) == complaint
        with pytest.raises(Invalid) as raised:
            all_of(container(envFrom=[{f"{kind}Ref": {"name": "x", "optional": optional}}]), None)
        assert str(raised.value) == complaint


def test_a_variable_from_a_file_cannot_be_provided_yet() -> None:
    reference = {"fileKeyRef": {"volumeName": "v", "path": "f", "key": "K"}}
    with pytest.raises(Unsupported) as raised:
        all_of(container({"name": "X", "valueFrom": reference}))
    assert str(raised.value) == 'env "X" needs fileKeyRef, which this version cannot provide yet'


# --- words


def test_commands_are_expanded_with_the_whole_environment() -> None:
    env = (("A", "1"), ("B", "2"))
    assert expand_all(("$(A)", "x$(B)", "$(C)", "$$(A)"), env) == ("1", "x2", "$(C)", "$(A)")
    assert expand_all((), env) == ()


def test_the_names_that_a_text_refers_to() -> None:
    assert references("a/$(B)/$(C)-$$(D)$(") == ("B", "C")
    assert references("") == ()
