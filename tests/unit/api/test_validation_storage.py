"""Volumes on storage elsewhere, and the claims made for a pod."""

from typing import Any

import pytest

from unit.api.validation_pods import (
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

IQN = "iqn.2001-04.com.example:disk"
ISCSI = {"targetPortal": "10.0.0.1:3260", "iqn": IQN, "lun": 0}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim(**fields: Any) -> dict[str, Any]:
    return {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM | fields}}}


ELSEWHERE: list[Row] = [
    (
        "GCE",
        {"gcePersistentDisk": {"partition": 256}},
        [("persistentDisk.pdName", REQUIRED), ("persistentDisk.partition", INVALID)],
    ),
    (
        "AWS",
        {"awsElasticBlockStore": {"partition": -1}},
        [("awsElasticBlockStore.volumeID", REQUIRED), ("awsElasticBlockStore.partition", INVALID)],
    ),
    ("NFS", {"nfs": {}}, [("nfs.server", REQUIRED), ("nfs.path", REQUIRED), ("nfs.path", INVALID)]),
    ("NFS with a relative path", {"nfs": {"server": "a", "path": "b"}}, [("nfs.path", INVALID)]),
    ("iSCSI", {"iscsi": ISCSI | {"initiatorName": "eui.0123456789abcdef"}}, []),
    (
        "iSCSI without anything",
        {"iscsi": {"lun": 256}},
        [("iscsi.targetPortal", REQUIRED), ("iscsi.iqn", REQUIRED), ("iscsi.lun", INVALID)],
    ),
    ("iSCSI with an unknown name", {"iscsi": ISCSI | {"iqn": "x"}}, [("iscsi.iqn", INVALID)]),
    ("iSCSI with a short name", {"iscsi": ISCSI | {"iqn": "naa.1"}}, [("iscsi.iqn", INVALID)]),
    ("iSCSI with a wrong initiator", {"iscsi": ISCSI | {"initiatorName": "iqn.x"}}, [("iscsi.initiatorname", INVALID)]),
    ("iSCSI with CHAP", {"iscsi": ISCSI | {"chapAuthSession": True}}, [("iscsi.secretRef", REQUIRED)]),
    (
        "iSCSI with a long portal",
        {"iscsi": ISCSI | {"targetPortal": "p" * 64, "initiatorName": IQN}},
        [("name", INVALID)],
    ),
    (
        "iSCSI with a long portal, refused",
        {"emptyDir": {}, "iscsi": ISCSI | {"targetPortal": "p" * 64, "initiatorName": IQN}},
        [("iscsi", FORBIDDEN), ("name", INVALID)],
    ),
    ("Gluster", {"glusterfs": {}}, [("glusterfs.endpoints", REQUIRED), ("glusterfs.path", REQUIRED)]),
    ("Flocker", {"flocker": {}}, [("flocker", REQUIRED)]),
    (
        "Flocker twice",
        {"flocker": {"datasetName": "a/b", "datasetUUID": "c"}},
        [("flocker", INVALID), ("flocker.datasetName", INVALID)],
    ),
    ("a claim", {"persistentVolumeClaim": {}}, [("persistentVolumeClaim.claimName", REQUIRED)]),
    ("RBD", {"rbd": {}}, [("rbd.monitors", REQUIRED), ("rbd.image", REQUIRED)]),
    ("Cinder", {"cinder": {"secretRef": {}}}, [("cinder.volumeID", REQUIRED), ("cinder.secretRef.name", REQUIRED)]),
    ("CephFS", {"cephfs": {}}, [("cephfs.monitors", REQUIRED)]),
    ("Quobyte", {"quobyte": {"registry": "a:1,[::1]:2", "volume": "v"}}, []),
    ("Quobyte without anything", {"quobyte": {}}, [("quobyte.registry", REQUIRED), ("quobyte.volume", REQUIRED)]),
    (
        "Quobyte without ports",
        {"quobyte": {"registry": "a,b:c:d,[a]", "volume": "v"}},
        [("quobyte.registry", INVALID)] * 3,
    ),
    (
        "Quobyte with a long tenant",
        {"quobyte": {"registry": "a", "volume": "v", "tenant": "t" * 65}},
        [("quobyte.tenant", REQUIRED)],
    ),
    ("fibre channel", {"fc": {"wwids": ["a"]}}, []),
    ("fibre channel to nowhere", {"fc": {}}, [("fc.targetWWNs", REQUIRED)]),
    ("fibre channel without a unit", {"fc": {"targetWWNs": ["a"]}}, [("fc.lun", REQUIRED)]),
    (
        "fibre channel to two places",
        {"fc": {"targetWWNs": ["a"], "wwids": ["a"], "lun": 256}},
        [("fc.targetWWNs", INVALID), ("fc.lun", INVALID)],
    ),
    (
        "a driver of one's own",
        {"flexVolume": {"options": {"a": "", "x.K8s.io/a": "", "kubernetes.io": ""}}},
        [
            ("flexVolume.driver", REQUIRED),
            ("flexVolume.options[x.K8s.io/a]", INVALID),
            ("flexVolume.options[kubernetes.io]", INVALID),
        ],
    ),
    ("an Azure file", {"azureFile": {}}, [("azureFile.secretName", REQUIRED), ("azureFile.shareName", REQUIRED)]),
    (
        "an Azure disk",
        {"azureDisk": {"diskName": "a", "diskURI": "https://a", "kind": "Shared", "cachingMode": "None"}},
        [],
    ),
    (
        "a managed Azure disk",
        {"azureDisk": {"kind": "Managed"}},
        [("azureDisk.diskName", REQUIRED), ("azureDisk.diskURI", REQUIRED), ("azureDisk.diskURI", NOT_SUPPORTED)],
    ),
    (
        "an unknown Azure disk",
        {"azureDisk": {"diskName": "a", "diskURI": "/subscriptions/a", "kind": "x", "cachingMode": "y"}},
        [
            ("azureDisk.cachingMode", NOT_SUPPORTED),
            ("azureDisk.kind", NOT_SUPPORTED),
            ("azureDisk.diskURI", NOT_SUPPORTED),
        ],
    ),
    ("vSphere", {"vsphereVolume": {}}, [("vsphereVolume.volumePath", REQUIRED)]),
    ("Photon", {"photonPersistentDisk": {}}, [("photonPersistentDisk.pdID", REQUIRED)]),
    ("Portworx", {"portworxVolume": {}}, [("portworxVolume.volumeID", REQUIRED)]),
    (
        "ScaleIO",
        {"scaleIO": {}},
        [("scaleIO.gateway", REQUIRED), ("scaleIO.system", REQUIRED), ("scaleIO.volumeName", REQUIRED)],
    ),
    (
        "StorageOS",
        {"storageos": {"volumeNamespace": "A", "secretRef": {}}},
        [
            ("storageos.volumeName", REQUIRED),
            ("storageos.volumeNamespace", INVALID),
            ("storageos.secretRef.name", REQUIRED),
        ],
    ),
    ("CSI", {"csi": {"driver": "CSI.example.com", "nodePublishSecretRef": {"name": "a"}}}, []),
    (
        "CSI without anything",
        {"csi": {"nodePublishSecretRef": {}}},
        [("csi.driver", REQUIRED), ("csi.driver", INVALID), ("csi.nodePublishSecretRef.name", REQUIRED)],
    ),
    (
        "CSI, misspelled",
        {"csi": {"driver": "d" * 64, "nodePublishSecretRef": {"name": "A"}}},
        [("csi.driver", TOO_LONG), ("csi.name", INVALID)],
    ),
]

CLAIMS: list[Row] = [
    ("a claim for this pod", claim(), []),
    ("a claim has a template", {"ephemeral": {}}, [("ephemeral.volumeClaimTemplate", REQUIRED)]),
    (
        "a claim has an access mode and a size",
        {"ephemeral": {"volumeClaimTemplate": {}}},
        under("ephemeral.volumeClaimTemplate.spec", [("accessModes", REQUIRED), ("resources[storage]", REQUIRED)]),
    ),
    ("an unknown mode", claim(accessModes=["x"]), [("ephemeral.volumeClaimTemplate.spec.accessModes", NOT_SUPPORTED)]),
    (
        "a volume of one pod has no other mode",
        claim(accessModes=["ReadWriteOnce", "ReadWriteOncePod"]),
        [("ephemeral.volumeClaimTemplate.spec.accessModes", FORBIDDEN)],
    ),
    (
        "a size is more than 0",
        claim(resources={"requests": {"storage": "0"}}),
        [("ephemeral.volumeClaimTemplate.spec.resources[storage]", INVALID)],
    ),
    (
        "classes and modes",
        claim(
            storageClassName="A", volumeMode="x", volumeAttributesClassName="B", selector={"matchLabels": {"a b": ""}}
        ),
        under(
            "ephemeral.volumeClaimTemplate.spec",
            [
                ("selector.matchLabels", INVALID),
                ("storageClassName", INVALID),
                ("volumeMode", NOT_SUPPORTED),
                ("volumeAttributesClassName", INVALID),
            ],
        ),
    ),
    ("an empty class is none", claim(storageClassName="", volumeAttributesClassName=""), []),
    ("data of another claim", claim(dataSource={"kind": "PersistentVolumeClaim", "name": "a"}), []),
    (
        "data of nothing",
        claim(dataSource={}),
        under("ephemeral.volumeClaimTemplate.spec.dataSource", [("name", REQUIRED), ("kind", REQUIRED), ("", INVALID)]),
    ),
    (
        "data of a misspelled group and namespace",
        claim(dataSourceRef={"apiGroup": "A", "kind": "K", "name": "a", "namespace": "N"}),
        under("ephemeral.volumeClaimTemplate.spec.dataSourceRef", [("apiGroup", INVALID), ("namespace", INVALID)]),
    ),
    (
        "data of two sources",
        claim(
            dataSource={"kind": "PersistentVolumeClaim", "name": "a"},
            dataSourceRef={"kind": "PersistentVolumeClaim", "name": "b"},
        ),
        [("ephemeral.volumeClaimTemplate.spec", INVALID)],
    ),
    (
        "data of another namespace",
        claim(
            dataSource={"kind": "PersistentVolumeClaim", "name": "a"},
            dataSourceRef={"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"},
        ),
        [("ephemeral.volumeClaimTemplate.spec", INVALID)],
    ),
    (
        "a template has labels and annotations",
        {
            "ephemeral": {
                "volumeClaimTemplate": {"spec": CLAIM, "metadata": {"labels": {"a b": ""}, "annotations": {"a b": ""}}}
            }
        },
        under("ephemeral.volumeClaimTemplate.metadata", [("annotations", INVALID), ("labels", INVALID)]),
    ),
    (
        "and nothing else",
        {
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": CLAIM,
                    "metadata": {"name": "a", "uid": "u", "deletionGracePeriodSeconds": 0},
                }
            }
        },
        under(
            "ephemeral.volumeClaimTemplate.metadata",
            [("name", FORBIDDEN), ("uID", FORBIDDEN), ("deletionGracePeriodSeconds", FORBIDDEN)],
        ),
    ),
]

STORAGE = [*ELSEWHERE, *CLAIMS]


@pytest.mark.parametrize(("_what", "volume", "expected"), STORAGE, ids=names_of(STORAGE))
def test_storage_follows_the_rules_of_its_kind(_what: str, volume: Fragment, expected: Expected) -> None:
    assert found({"volumes": [{"name": "v"} | dict(volume)]}) == under("spec.volumes[0]", expected)


def test_the_claim_of_an_ephemeral_volume_has_a_name_that_fits() -> None:
    assert found({"volumes": [{"name": "v"} | claim()]}, {"name": "w" * 252}) == [("spec.volumes[0].name", INVALID)]


def test_a_claim_made_for_the_pod_is_not_used_by_name() -> None:
    volumes = [{"name": "v"} | claim(), {"name": "w", "persistentVolumeClaim": {"claimName": "web-v"}}]
    assert found({"volumes": volumes}) == [("spec.volumes[1].persistentVolumeClaim.claimName", INVALID)]
