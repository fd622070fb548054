"""Names that others know, too: each has to be upstream's to the letter."""

from pykubelet.api.rules.csi_names import attachment_name, of_unique_name, own_handle, unique_name


def test_names_are_those_that_attachers_and_the_go_kubelet_use() -> None:
    assert unique_name("disk.example.com", "a^b") == "kubernetes.io/csi/disk.example.com^a^b"
    assert of_unique_name("kubernetes.io/csi/disk.example.com^a^b") == ("disk.example.com", "a^b")
    assert of_unique_name("kubernetes.io/csi/disk.example.com") is None
    assert of_unique_name("kubernetes.io/nfs/disk.example.com^a") is None
    known = "csi-67beaef07640111ae4680dbb1618fdc2d7e8b400988a31892dc9e25a33572edd"
    assert attachment_name("disk.example.com", "vol-1", "n1") == known
    assert own_handle("u-1", "data") == "csi-7a075fb358279980b660d575168af6c25ee140b5f3a73a8a16e21f8e4f1e9ad8"
