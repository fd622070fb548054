from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.pod import PodSpec
from pykubelet.pod.container.references import api_references


def references(**spec: Any) -> list[tuple[str, str]]:
    return list(api_references(codec.convert(PodSpec, spec)))


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
            "config maps",
        ),
        ({"envFrom": [{"secretRef": {}}]}, "envFrom[0].secretRef", "secrets"),
        ({"envFrom": [{}, {"configMapRef": {}}]}, "envFrom[1].configMapRef", "config maps"),
    ],
)
def test_every_container_is_searched(kind: str, fields: dict[str, Any], path: str, needed: str) -> None:
    assert references(**{kind: [{"name": "first"}, {"name": "c", **fields}]}) == [(f"spec.{kind}[1].{path}", needed)]


@pytest.mark.parametrize(
    ("source", "path", "needed"),
    [
        ({"configMap": {}}, "configMap", "config maps"),
        ({"secret": {}}, "secret", "secrets"),
        ({"csi": {"driver": "d"}}, "csi", "CSI drivers"),
        ({"glusterfs": {}}, "glusterfs", "endpoints"),
        ({"persistentVolumeClaim": {}}, "persistentVolumeClaim", "persistent volume claims"),
        ({"ephemeral": {}}, "ephemeral", "persistent volume claims"),
        ({"azureFile": {}}, "azureFile", "secrets"),
        ({"cephfs": {"secretRef": {}}}, "cephfs.secretRef", "secrets"),
        ({"cinder": {"secretRef": {}}}, "cinder.secretRef", "secrets"),
        ({"flexVolume": {"secretRef": {}}}, "flexVolume.secretRef", "secrets"),
        ({"iscsi": {"secretRef": {}}}, "iscsi.secretRef", "secrets"),
        ({"rbd": {"secretRef": {}}}, "rbd.secretRef", "secrets"),
        ({"scaleIO": {"secretRef": {}}}, "scaleIO.secretRef", "secrets"),
        ({"storageos": {"secretRef": {}}}, "storageos.secretRef", "secrets"),
        ({"projected": {"sources": [{"secret": {}}]}}, "projected.sources[0].secret", "secrets"),
        ({"projected": {"sources": [{}, {"configMap": {}}]}}, "projected.sources[1].configMap", "config maps"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {}}]}},
            "projected.sources[0].serviceAccountToken",
            "service accounts",
        ),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {}}]}},
            "projected.sources[0].clusterTrustBundle",
            "cluster trust bundles",
        ),
        (
            {"projected": {"sources": [{"podCertificate": {}}]}},
            "projected.sources[0].podCertificate",
            "pod certificates",
        ),
    ],
)
def test_every_kind_of_volume_that_needs_an_api_server_is_found(source: dict[str, Any], path: str, needed: str) -> None:
    volumes = [{"name": "other", "emptyDir": {}}, {"name": "v", **source}]
    assert references(volumes=volumes) == [(f"spec.volumes[1].{path}", needed)]


@pytest.mark.parametrize(
    ("spec", "path", "needed"),
    [
        ({"serviceAccountName": "me"}, "spec.serviceAccountName", "service accounts"),
        ({"imagePullSecrets": [{}, {"name": "s"}]}, "spec.imagePullSecrets[1]", "secrets"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims", "resource claims"),
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
    assert [path for path, _ in found] == [
        "spec.serviceAccountName",
        "spec.containers[0].envFrom[0].secretRef",
        "spec.containers[0].envFrom[0].configMapRef",
        "spec.volumes[0].secret",
    ]
