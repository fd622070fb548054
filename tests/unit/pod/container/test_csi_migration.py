"""Volumes of clouds are their drivers' volumes, by the names that upstream's translation gives them."""

from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.storage import PersistentVolume
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.csi_migration import migrated, migrated_inline

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def volume(spec: dict[str, Any], **metadata: Any) -> PersistentVolume:
    return codec.convert(PersistentVolume, {"metadata": {"name": "pv", **metadata}, "spec": spec})


@pytest.mark.parametrize(
    ("given", "driver", "handle", "attributes"),
    [
        (
            volume({"gcePersistentDisk": {"pdName": "d"}}, labels={ZONE: "us-a1-b"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-a1-b/disks/d",
            {"partition": ""},
        ),
        (
            volume({"gcePersistentDisk": {"pdName": "d", "partition": 2}}, labels={OLD_ZONE: "us-a1-b__us-a1-c"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-a1/disks/d",
            {"partition": "2"},
        ),
        (
            volume({"gcePersistentDisk": {"pdName": "d"}}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            {"partition": ""},
        ),
        (
            volume({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}),
            "ebs.csi.aws.com",
            "vol-1",
            {"partition": "0"},
        ),
        (volume({"awsElasticBlockStore": {"volumeID": "vol-1"}}), "ebs.csi.aws.com", "vol-1", {"partition": "0"}),
        (volume({"cinder": {"volumeID": "x"}}), "cinder.csi.openstack.org", "x", {}),
        (
            volume({"azureDisk": {"diskName": "d", "diskURI": "/subs/d", "cachingMode": "None", "fsType": "xfs"}}),
            "disk.csi.azure.com",
            "/subs/d",
            {"kind": "Managed", "cachingmode": "None", "fstype": "xfs"},
        ),
        (
            volume(
                {"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "s"}}
                | {"claimRef": {"namespace": "ns"}},
                annotations={"kubernetes.io/azure-file-resource-group": "rg"},
            ),
            "file.csi.azure.com",
            "rg#acc#s#pv#ns",
            {"sharename": "s"},
        ),
        (
            volume({"vsphereVolume": {"volumePath": "[ds] a.vmdk", "storagePolicyName": "gold"}}),
            "csi.vsphere.vmware.com",
            "[ds] a.vmdk",
            {"storagepolicyname": "gold"},
        ),
        (volume({"portworxVolume": {"volumeID": "7"}}), "pxd.portworx.com", "7", {}),
    ],
)
def test_a_persistent_volume(given: PersistentVolume, driver: str, handle: str, attributes: dict[str, str]) -> None:
    csi = migrated(given).spec.csi
    assert csi is not None
    assert (csi.driver, csi.volume_handle, csi.volume_attributes) == (driver, handle, attributes)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://z/a/b"}}, "is no volume of AWS"),
        ({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}, "not supported in csi migration"),
        ({"azureFile": {"secretName": "s", "shareName": "s"}}, "could not find a secret namespace"),
    ],
)
def test_one_that_nobody_can_translate_is_told(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        migrated(volume(spec))


def test_what_needs_no_driver_is_as_it_was() -> None:
    plain = volume({"hostPath": {"path": "/x"}})
    assert migrated(plain) is plain
    assert migrated_inline(Volume(name="x"), "default") is None


def test_one_that_a_pod_names_itself_has_a_name_that_can_be_a_folder() -> None:
    given = codec.convert(Volume, {"name": "d", "azureDisk": {"diskName": "d", "diskURI": "/subscriptions/../x/d1"}})
    found = migrated_inline(given, "default")
    assert found is not None
    assert found.metadata.name == "disk.csi.azure.com-d1"
    given = codec.convert(Volume, {"name": "f", "azureFile": {"secretName": "s", "shareName": "sh"}})
    found = migrated_inline(given, "ns")
    assert found is not None
    assert found.spec.csi is not None
    assert found.spec.csi.node_stage_secret_ref is not None
    assert (found.spec.csi.node_stage_secret_ref.namespace, found.spec.access_modes) == ("ns", ("ReadWriteMany",))
    assert "/" not in found.metadata.name
