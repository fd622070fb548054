from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.defaults import default_image_volumes, default_pod, pull_policy
from pykubelet.api.pod import Pod


def defaulted(**spec: Any) -> dict[str, Any]:
    """The spec of a pod as it is after defaulting."""
    pod = default_pod(codec.convert(Pod, {"spec": spec}))
    result: dict[str, Any] = codec.to_builtins(pod)["spec"]
    return result


def container(**fields: Any) -> dict[str, Any]:
    """The one container of a pod as it is after defaulting."""
    result: dict[str, Any] = defaulted(containers=[{"name": "c", "image": "app:1", **fields}])["containers"][0]
    return result


def volume(**fields: Any) -> dict[str, Any]:
    """The one volume of a pod as it is after defaulting, without its name."""
    (result,) = defaulted(volumes=[{"name": "v", **fields}])["volumes"]
    return {key: value for key, value in result.items() if key != "name"}


def test_a_pod_gets_what_its_author_left_out() -> None:
    assert defaulted() == {
        "containers": [],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dnsPolicy", "Default"),
        ("restartPolicy", "Never"),
        ("securityContext", {"runAsUser": 0}),
        ("terminationGracePeriodSeconds", 0),
        ("schedulerName", "mine"),
        ("enableServiceLinks", False),
    ],
)
def test_what_the_author_wrote_is_kept(field: str, value: object) -> None:
    assert defaulted(**{field: value})[field] == value


def test_every_kind_of_container_gets_what_its_author_left_out() -> None:
    expected = {
        "name": "c",
        "image": "app",
        "resources": {},
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        assert defaulted(**{kind: [{"name": "c", "image": "app"}]})[kind] == [expected]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("registry:5000/app", "Always"),
        ("app:1.2", "IfNotPresent"),
        ("app@sha256:" + "0" * 64, "IfNotPresent"),
        ("app:latest@sha256:" + "0" * 64, "Always"),
        ("not a name", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_a_moving_tag_is_pulled_every_time(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_port_is_tcp_and_on_the_hosts_network_the_hosts_own() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}]
    assert container(ports=ports)["ports"] == [
        {"containerPort": 80, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP", "hostPort": 5353},
    ]
    pod = defaulted(hostNetwork=True, containers=[{"name": "c", "ports": ports}])
    assert [port["hostPort"] for port in pod["containers"][0]["ports"]] == [80, 5353]


def test_a_probe_gets_its_numbers_and_a_zero_counts_as_left_out() -> None:
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container(**{kind: {"exec": {}}})[kind] == {"exec": {}, **numbers}
        assert container(**{kind: dict.fromkeys(numbers, 0)})[kind] == numbers
        assert container(**{kind: dict.fromkeys(numbers, 7)})[kind] == dict.fromkeys(numbers, 7)


def test_a_web_request_goes_to_the_root_by_http() -> None:
    given = {"httpGet": {"port": 80}}
    expected = {"path": "/", "port": 80, "scheme": "HTTP"}
    assert container(livenessProbe=given)["livenessProbe"]["httpGet"] == expected
    assert container(lifecycle={"postStart": given, "preStop": given})["lifecycle"] == {
        "postStart": {"httpGet": expected},
        "preStop": {"httpGet": expected},
    }


def test_a_grpc_probe_asks_for_the_nameless_service() -> None:
    assert container(livenessProbe={"grpc": {"port": 1}})["livenessProbe"]["grpc"] == {"port": 1, "service": ""}


def test_a_field_reference_is_of_version_1() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    assert container(env=env)["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}


def test_a_key_of_a_file_is_needed() -> None:
    env = [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]
    assert container(env=env)["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False


@pytest.mark.parametrize(
    ("given", "requests"),
    [
        ({"limits": {"cpu": "1"}}, {"cpu": "1"}),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "0"}}, {"cpu": "0"}),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, {"cpu": "500m", "memory": "1Gi"}),
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}),
    ],
)
def test_who_sets_only_a_limit_requests_that_much(given: dict[str, Any], requests: dict[str, str]) -> None:
    assert container(resources=given)["resources"]["requests"] == requests


def test_an_ephemeral_container_requests_nothing() -> None:
    pod = defaulted(ephemeralContainers=[{"name": "e", "resources": {"limits": {"cpu": "1"}}}])
    assert pod["ephemeralContainers"][0]["resources"] == {"limits": {"cpu": "1"}}


def test_nothing_finer_than_a_thousandth_is_asked_for() -> None:
    assert container(resources={"requests": {"cpu": "1500u"}})["resources"] == {"requests": {"cpu": "2m"}}
    assert defaulted(overhead={"cpu": "1n"})["overhead"] == {"cpu": "1m"}


def test_a_pod_as_a_whole_requests_what_it_limits_or_what_its_containers_request() -> None:
    main = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"hugepages-2Mi": "4Mi"}}}
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert defaulted(containers=[main], resources=resources)["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
        "requests": {"cpu": "100m", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
    }
    assert defaulted(containers=[main], resources={})["resources"] == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        ({"secret": {}}, {"secret": {"defaultMode": 0o644}}),
        ({"secret": {"defaultMode": 0}}, {"secret": {"defaultMode": 0}}),
        ({"configMap": {}}, {"configMap": {"defaultMode": 0o644}}),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "f"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "f"}}],
                    "defaultMode": 0o644,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"secret": {"name": "s"}}]}},
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}},
                        {"secret": {"name": "s"}},
                    ],
                    "defaultMode": 0o644,
                }
            },
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}},
            {"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "iscsiInterface": "default"}},
        ),
        (
            {"rbd": {"monitors": [], "image": "i"}},
            {"rbd": {"monitors": [], "image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}},
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}, "volumeMode": "Filesystem"}}
                }
            },
        ),
    ],
)
def test_a_volume_gets_what_its_kind_needs(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert volume(**given) == expected


def test_nothing_but_the_spec_is_touched() -> None:
    pod = codec.convert(Pod, {"metadata": {"name": "a"}, "status": {"phase": "Running"}})
    assert default_pod(pod).metadata == pod.metadata
    assert default_pod(pod).status == pod.status


def test_defaulting_twice_is_defaulting_once() -> None:
    given = {
        "containers": [{"name": "c", "ports": [{"containerPort": 1}]}],
        "volumes": [{"name": "v"}],
        "hostNetwork": True,
    }
    once = default_pod(codec.convert(Pod, {"spec": given}))
    assert default_pod(once) == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ({"reference": "r/m"}, "Always"),
        ({"reference": "r/m:1"}, "IfNotPresent"),
        ({"reference": "r/m", "pullPolicy": "Never"}, "Never"),
    ],
)
def test_images_that_are_volumes_are_pulled_as_those_of_containers(image: dict[str, str], policy: str) -> None:
    spec = codec.convert(Pod, {"spec": {"volumes": [{"name": "v", "image": image}, {"name": "w"}]}}).spec
    assert default_pod(Pod(spec=spec)).spec.volumes[0] == spec.volumes[0]  # upstream, without its gate
    found = default_image_volumes(spec).volumes
    assert [volume.image.pull_policy for volume in found if volume.image] == [policy]
