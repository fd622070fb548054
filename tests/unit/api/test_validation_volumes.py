"""Volumes that the node makes: one source each, directories, config maps, secrets, and what is projected of them."""

from typing import Any

import pytest

from unit.api.validation_pods import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    Expected,
    Fragment,
    Row,
    found,
    names_of,
    under,
)

CERTIFICATE = {"signerName": "example.com/signer", "keyType": "ED25519", "keyPath": "key"}
FILE = {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}


def projected(*sources: Fragment) -> dict[str, Any]:
    return {"projected": {"sources": list(sources)}}


def token(**fields: Any) -> dict[str, Any]:
    return projected({"serviceAccountToken": {"expirationSeconds": 3600, "path": "token"} | fields})


def bundle(**fields: Any) -> dict[str, Any]:
    return projected({"clusterTrustBundle": {"path": "ca"} | fields})


def certificate(**fields: Any) -> dict[str, Any]:
    return projected({"podCertificate": CERTIFICATE | fields})


ON_THE_NODE: list[Row] = [
    ("a volume has a source", {}, [("", REQUIRED)]),
    ("a volume has a name", {"name": "", "emptyDir": {}}, [("name", REQUIRED)]),
    ("a volume's name is a DNS label", {"name": "a.b", "emptyDir": {}}, [("name", INVALID)]),
    (
        "a volume has one source",
        {"emptyDir": {}, "hostPath": {"path": ""}, "nfs": {}},
        [("hostPath", FORBIDDEN), ("nfs", FORBIDDEN)],
    ),
    (
        "the second of two file systems of Ceph",
        {"rbd": {"monitors": ["a"], "image": "b"}, "cephfs": {}},
        [("cephFS", FORBIDDEN)],
    ),
    ("a second source that is the pod itself", {"emptyDir": {}, "downwardAPI": {}}, [("downwarAPI", FORBIDDEN)]),
    ("an empty directory", {"emptyDir": {"sizeLimit": "1Gi", "medium": "anything"}}, []),
    ("a size is not negative", {"emptyDir": {"sizeLimit": "-1"}}, [("emptyDir.sizeLimit", FORBIDDEN)]),
    ("a path of the host", {"hostPath": {"path": "relative/is/fine", "type": "DirectoryOrCreate"}}, []),
    ("a path is required", {"hostPath": {"type": "x"}}, [("hostPath.path", REQUIRED)]),
    (
        "a path does not step back",
        {"hostPath": {"path": "/a/../b", "type": "x"}},
        [("hostPath.path", INVALID), ("hostPath.type", NOT_SUPPORTED)],
    ),
    ("dots in a path", {"hostPath": {"path": "/a/..b/c.."}}, []),
    (
        "a secret",
        {"secret": {"secretName": "s", "defaultMode": 0o777, "items": [{"key": "a", "path": "b/c", "mode": 0}]}},
        [],
    ),
    (
        "a secret has a name, and modes of nine bits",
        {"secret": {"defaultMode": 512, "items": [{"mode": -1}]}},
        [
            ("secret.secretName", REQUIRED),
            ("secret.defaultMode", INVALID),
            ("secret.items[0].key", REQUIRED),
            ("secret.items[0].path", REQUIRED),
            ("secret.items[0].mode", INVALID),
        ],
    ),
    (
        "a config map has a name",
        {"configMap": {"defaultMode": -1}},
        [("configMap.name", REQUIRED), ("configMap.defaultMode", INVALID)],
    ),
    (
        "files stay in the volume",
        {
            "configMap": {
                "name": "c",
                "items": [{"key": "a", "path": path} for path in ("/a", "../a", "..a", "a/..", "..", "a..b")],
            }
        },
        [
            ("configMap.items[0].path", INVALID),
            ("configMap.items[1].path", INVALID),
            ("configMap.items[2].path", INVALID),
            ("configMap.items[3].path", INVALID),
            ("configMap.items[4].path", INVALID),
            ("configMap.items[4].path", INVALID),
        ],
    ),
    ("facts about the pod", {"downwardAPI": {"items": [FILE]}}, []),
    (
        "a fact has a path and a source",
        {"downwardAPI": {"defaultMode": 512, "items": [{"mode": 512}]}},
        [
            ("downwardAPI.defaultMode", INVALID),
            ("downwardAPI.path", REQUIRED),
            ("downwardAPI", REQUIRED),
            ("downwardAPI.mode", INVALID),
        ],
    ),
    (
        "a fact has one source",
        {"downwardAPI": {"items": [FILE | {"resourceFieldRef": {}}]}},
        [("downwardAPI", INVALID)],
    ),
    (
        "a resource is that of a container",
        {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}]}},
        [("downwardAPI.resourceFieldRef.containerName", REQUIRED), ("downwardAPI.resourceFieldRef.divisor", INVALID)],
    ),
    (
        "a node's name is for variables",
        {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}]}},
        [("downwardAPI.fieldRef.fieldPath", NOT_SUPPORTED)],
    ),
    ("an image", {"image": {"reference": "a", "pullPolicy": "Always"}}, []),
    ("an image has a reference", {"image": {}}, [("image.reference", REQUIRED), ("image.pullPolicy", REQUIRED)]),
    (
        "an image has a pull policy",
        {"image": {"reference": "a", "pullPolicy": "x"}},
        [("image.pullPolicy", NOT_SUPPORTED)],
    ),
    (
        "a git repository",
        {"gitRepo": {"directory": "/../a"}},
        [("gitRepo.repository", REQUIRED)] + [("gitRepo.directory", INVALID)] * 2,
    ),
]

PROJECTED: list[Row] = [
    ("nothing", projected(), []),
    ("a token", token(), []),
    (
        "a token lasts ten minutes at least",
        token(expirationSeconds=599),
        [("projected.sources[0].serviceAccountToken.expirationSeconds", INVALID)],
    ),
    (
        "and 2^32 seconds at most",
        token(expirationSeconds=2**32 + 1),
        [("projected.sources[0].serviceAccountToken.expirationSeconds", INVALID)],
    ),
    ("a token has a path", token(path=""), [("projected.path", REQUIRED)]),
    ("which is relative", token(path="/a"), [("projected.path", INVALID)]),
    (
        "a config map and a secret in one entry",
        projected({"configMap": {}, "secret": {}}),
        [
            ("projected.sources[0].secret.name", REQUIRED),
            ("projected.sources[0].configMap.name", REQUIRED),
            ("projected.sources[0]", FORBIDDEN),
        ],
    ),
    (
        "two files with one path",
        projected(
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "a"}]}},
            {"secret": {"name": "s", "items": [{"key": "a", "path": "a"}]}},
            {"downwardAPI": {"items": [FILE]}},
            {"clusterTrustBundle": {"name": "b", "path": "a"}},
            {"podCertificate": CERTIFICATE | {"keyPath": "a"}},
        ),
        [("projected", INVALID)] * 4,
    ),
    (
        "a token may be where a file is",
        projected({"downwardAPI": {"items": [FILE]}}, {"serviceAccountToken": {"expirationSeconds": 600, "path": "a"}}),
        [],
    ),
    (
        "facts about the pod",
        projected({"downwardAPI": {"items": [{}]}}),
        [("projected.sources[0].downwardAPI.path", REQUIRED), ("projected.sources[0].downwardAPI", REQUIRED)],
    ),
    ("a mode has nine bits", {"projected": {"defaultMode": 512}}, [("projected.defaultMode", INVALID)]),
    ("a trust bundle by name", bundle(name="example.com:signer:name"), []),
    ("a trust bundle by signer", bundle(signerName="example.com/signer", labelSelector={}), []),
    ("a trust bundle by neither", bundle(), [("projected.sources[0].clusterTrustBundle", REQUIRED)]),
    (
        "a trust bundle by both",
        bundle(name="A", signerName="B"),
        [("projected.sources[0].clusterTrustBundle", INVALID)],
    ),
    (
        "a trust bundle by an empty name",
        bundle(name="", labelSelector={}),
        under(
            "projected.sources[0].clusterTrustBundle",
            [("name", REQUIRED), ("name", INVALID), ("labelSelector", INVALID)],
        ),
    ),
    ("a name with an empty signer", bundle(name=":a"), [("projected.sources[0].clusterTrustBundle.name", INVALID)]),
    ("a name with a slash", bundle(name="a/b:c"), [("projected.sources[0].clusterTrustBundle.name", INVALID)]),
    (
        "a trust bundle by an empty signer",
        bundle(signerName=""),
        [("projected.sources[0].clusterTrustBundle.signerName", REQUIRED)] * 2,
    ),
    (
        "a selector is checked beside a signer",
        bundle(signerName="example.com/a", labelSelector={"matchLabels": {"a b": "c"}}),
        [("projected.sources[0].clusterTrustBundle.labelSelector.matchLabels", INVALID)],
    ),
    (
        "a trust bundle has a path",
        bundle(name="a", path=""),
        [("projected.sources[0].clusterTrustBundle.path", REQUIRED)],
    ),
    ("a certificate", certificate(maxExpirationSeconds=3600), []),
    (
        "a certificate has a signer",
        certificate(signerName=""),
        [("projected.sources[0].podCertificate.signerName", REQUIRED)],
    ),
    (
        "a signer has one slash",
        certificate(signerName="a"),
        [("projected.sources[0].podCertificate.signerName", INVALID)],
    ),
    (
        "a signer has a domain",
        certificate(signerName="a/b"),
        [("projected.sources[0].podCertificate.signerName", INVALID)],
    ),
    (
        "a signer's parts are spelled well",
        certificate(signerName="A.b/C"),
        [("projected.sources[0].podCertificate.signerName", INVALID)] * 2,
    ),
    (
        "a signer's domain is short",
        certificate(signerName="a." * 130 + "b/c"),
        [("projected.sources[0].podCertificate.signerName", TOO_LONG)],
    ),
    (
        "a signer is short",
        certificate(signerName="a.b/" + "c." * 300 + "d"),
        [("projected.sources[0].podCertificate.signerName", TOO_LONG)],
    ),
    (
        "a certificate has a key",
        certificate(keyType="x"),
        [("projected.sources[0].podCertificate.keyType", NOT_SUPPORTED)],
    ),
    (
        "it lasts an hour at least",
        certificate(maxExpirationSeconds=3599),
        [("projected.sources[0].podCertificate.maxExpirationSeconds", INVALID)],
    ),
    (
        "and 91 days at most",
        certificate(maxExpirationSeconds=91 * 86400 + 1),
        [("projected.sources[0].podCertificate.maxExpirationSeconds", INVALID)],
    ),
    (
        "or one day, when Kubernetes signs",
        certificate(signerName="kubernetes.io/a", maxExpirationSeconds=86401),
        [("projected.sources[0].podCertificate.maxExpirationSeconds", INVALID)],
    ),
    ("a certificate has a file", certificate(keyPath=""), [("projected.sources[0].podCertificate", REQUIRED)]),
    (
        "each in its place",
        certificate(credentialBundlePath="key", certificateChainPath="/a"),
        [("projected", INVALID), ("projected.sources[0].podCertificate.certificateChainPath", INVALID)],
    ),
]

VOLUMES = [*ON_THE_NODE, *PROJECTED]


@pytest.mark.parametrize(("_what", "volume", "expected"), VOLUMES, ids=names_of(VOLUMES))
def test_a_volume_follows_the_rules_of_its_kind(_what: str, volume: Fragment, expected: Expected) -> None:
    spec = {"serviceAccountName": "default", "volumes": [{"name": "v"} | dict(volume)]}
    assert found(spec) == under("spec.volumes[0]", expected)


def test_volumes_have_different_names() -> None:
    volumes: list[Fragment] = [
        {"name": "v", "secret": {}},
        {"name": "v", "emptyDir": {}},
        {"name": "v", "emptyDir": {}},
    ]
    assert found({"volumes": volumes}) == [
        ("spec.volumes[0].secret.secretName", REQUIRED),  # a broken volume does not take its name
        ("spec.volumes[2].name", DUPLICATE),
    ]


def test_a_token_needs_a_service_account() -> None:
    spec = {"volumes": [{"name": "v"} | token()]}
    assert found(spec) == [("spec.volumes[0].projected.sources[0].serviceAccountToken", FORBIDDEN)]
    assert found(spec | {"serviceAccount": "default"}) == []
