from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.pod import PodSpec
from pykubelet.pod.container.references import api_references, object_uses


def references(**spec: Any) -> list[tuple[str, str]]:
    return [(each.field, each.what) for each in api_references(codec.convert(PodSpec, spec))]


def test_a_pod_that_stands_alone_refers_to_nothing() -> None:
    spec = {
        "containers": [
            {
                "name": "c",
                "env": [
                    {"name": "A", "value": "x"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "envFrom": [{"prefix": "X"}],
            }
        ],
        "imagePullSecrets": [{}],
        "volumes": [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "hostPath": {"path": "/"}},
            {"name": "c", "downwardAPI": {}},
            {"name": "d", "projected": {"sources": [{"downwardAPI": {}}]}},
            {"name": "e", "nfs": {"server": "s", "path": "/"}},
            {"name": "f", "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}},
            {"name": "g", "image": {"reference": "i"}},
        ],
    }
    assert references(**spec) == []


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    ("fields", "path", "needed"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}]},
            "env[0].valueFrom.secretKeyRef",
            "secrets",
        ),
        (
            {"env": [{"name": "A"}, {"name": "B", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]},
            "env[1].valueFrom.configMapKeyRef",
            "configmaps",
        ),
        ({"envFrom": [{"secretRef": {}}]}, "envFrom[0].secretRef", "secrets"),
        ({"envFrom": [{}, {"configMapRef": {}}]}, "envFrom[1].configMapRef", "configmaps"),
    ],
)
def test_every_container_is_searched(kind: str, fields: dict[str, Any], path: str, needed: str) -> None:
    assert references(**{kind: [{"name": "first"}, {"name": "c", **fields}]}) == [(f"spec.{kind}[1].{path}", needed)]


@pytest.mark.parametrize(
    ("source", "path", "needed"),
    [
        ({"configMap": {}}, "configMap", "configmaps"),
        ({"secret": {}}, "secret", "secrets"),
        ({"csi": {"driver": "d"}}, "csi", "csidrivers (via CSI volumes)"),
        ({"glusterfs": {}}, "glusterfs", "endpoints (via glusterFS volumes)"),
        ({"persistentVolumeClaim": {}}, "persistentVolumeClaim", "persistentvolumeclaims"),
        ({"ephemeral": {}}, "ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ({"azureFile": {}}, "azureFile", "secrets (via azureFile volumes)"),
        ({"cephfs": {"secretRef": {}}}, "cephfs.secretRef", "secrets"),
        ({"cinder": {"secretRef": {}}}, "cinder.secretRef", "secrets"),
        ({"flexVolume": {"secretRef": {}}}, "flexVolume.secretRef", "secrets"),
        ({"iscsi": {"secretRef": {}}}, "iscsi.secretRef", "secrets"),
        ({"rbd": {"secretRef": {}}}, "rbd.secretRef", "secrets"),
        ({"scaleIO": {"secretRef": {}}}, "scaleIO.secretRef", "secrets"),
        ({"storageos": {"secretRef": {}}}, "storageos.secretRef", "secrets"),
        ({"projected": {"sources": [{"secret": {}}]}}, "projected.sources[0].secret", "secrets"),
        ({"projected": {"sources": [{}, {"configMap": {}}]}}, "projected.sources[1].configMap", "configmaps"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {}}]}},
            "projected.sources[0].serviceAccountToken",
            "serviceaccounts (via projected volumes)",
        ),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {}}]}},
            "projected.sources[0].clusterTrustBundle",
            "clustertrustbundles",
        ),
        (
            {"projected": {"sources": [{"podCertificate": {}}]}},
            "projected.sources[0].podCertificate",
            "podcertificates",
        ),
    ],
)
def test_every_kind_of_volume_that_needs_an_api_server_is_found(source: dict[str, Any], path: str, needed: str) -> None:
    volumes = [{"name": "other", "emptyDir": {}}, {"name": "v", **source}]
    assert references(volumes=volumes) == [(f"spec.volumes[1].{path}", needed)]


@pytest.mark.parametrize(
    ("spec", "path", "needed"),
    [
        ({"serviceAccountName": "me"}, "spec.serviceAccountName", "serviceaccounts"),
        ({"imagePullSecrets": [{}, {"name": "s"}]}, "spec.imagePullSecrets[1]", "secrets"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims[0]", "resourceclaims"),
    ],
)
def test_the_pod_itself_may_refer_to_something(spec: dict[str, Any], path: str, needed: str) -> None:
    assert references(**spec) == [(path, needed)]


def test_all_references_are_named() -> None:
    found = references(
        serviceAccountName="me",
        containers=[{"name": "c", "envFrom": [{"secretRef": {}, "configMapRef": {}}]}],
        volumes=[{"name": "v", "secret": {}}],
    )
    assert sorted(path for path, _ in found) == [
        "spec.containers[0].envFrom[0].configMapRef",
        "spec.containers[0].envFrom[0].secretRef",
        "spec.serviceAccountName",
        "spec.volumes[0].secret",
    ]


# --- the objects that a pod reads


def uses(**spec: Any) -> dict[tuple[Any, str], bool]:
    return dict(object_uses(codec.convert(PodSpec, spec)))


def mounting(*mounts: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "volumeMounts": [{"mountPath": "/x", **mount} for mount in mounts]}


def test_a_pod_reads_what_its_volumes_its_environment_and_its_pulls_need() -> None:
    key = {"key": "k"}
    env = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env-secret", **key}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env-map", **key}}},
    ]
    assert uses(
        imagePullSecrets=[{"name": "pull"}, {}],
        initContainers=[{"name": "i", "env": env}],
        containers=[mounting({"name": "map"}, {"name": "secret"}, {"name": "all"})],
        ephemeralContainers=[{"name": "e", "envFrom": [{"configMapRef": {"name": "from-map"}}]}],
        volumes=[
            {"name": "map", "configMap": {"name": "a"}},
            {"name": "secret", "secret": {"secretName": "b"}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "d"}}]}},
            {"name": "unused", "configMap": {"name": "nobody's"}},
            {"name": "mine", "emptyDir": {}},
        ],
    ) == {
        ("secret", "pull"): False,
        ("secret", "env-secret"): False,
        ("configmap", "env-map"): False,
        ("configmap", "from-map"): False,
        ("configmap", "a"): True,
        ("secret", "b"): True,
        ("configmap", "c"): True,
        ("secret", "d"): True,
    }


@pytest.mark.parametrize(
    ("mounts", "follows"),
    [
        ([{"name": "v", "subPath": "k"}], False),
        ([{"name": "v", "subPathExpr": "$(A)"}], False),
        ([{"name": "v", "subPath": "k"}, {"name": "v"}], True),
        ([{"name": "v"}, {"name": "v", "subPath": "k"}], True),
    ],
)
def test_files_follow_their_object_unless_all_that_is_mounted_are_parts(
    mounts: list[dict[str, str]], follows: bool
) -> None:
    volumes = [{"name": "v", "configMap": {"name": "a"}}]
    assert uses(containers=[mounting(*mounts)], volumes=volumes) == {("configmap", "a"): follows}


def test_one_that_is_mounted_and_in_the_environment_is_followed() -> None:
    container = {**mounting({"name": "v"}), "envFrom": [{"configMapRef": {"name": "a"}}]}
    volumes = [{"name": "v", "configMap": {"name": "a"}}]
    assert uses(containers=[container], volumes=volumes) == {("configmap", "a"): True}
