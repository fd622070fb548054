"""What an etcd store decides before any member is asked."""

from pathlib import Path

import pytest

from pykubelet.apiserver.store.etcd import EtcdStore, tells_true_progress
from pykubelet.apiserver.store.etcd_channel import EtcdTls
from pykubelet.base.errors import Invalid, Retry


async def test_a_store_without_any_member_is_not_opened() -> None:
    with pytest.raises(Retry, match=r"etcd at http://127\.0\.0\.1:1 does not answer"):
        await EtcdStore.open(["http://127.0.0.1:1"])


@pytest.mark.parametrize("endpoint", ["", "http://", "127.0.0.1", "ftp://h:1", "http://h:99999", "http://h:1/path"])
async def test_an_endpoint_that_is_none_is_named(endpoint: str) -> None:
    with pytest.raises(Invalid, match="is not an endpoint"):
        await EtcdStore.open([endpoint])


async def test_certificates_are_not_given_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="without TLS although"):
        await EtcdStore.open(["http://127.0.0.1:2379"], EtcdTls(b"ca"))
    with pytest.raises(Invalid, match="together"):
        EtcdTls.read(None, tmp_path / "client.pem", None)
    with pytest.raises(Invalid, match=r"ca\.pem cannot be read"):
        EtcdTls.read(tmp_path / "ca.pem", None, None)
    with pytest.raises(Invalid, match="at least one endpoint"):
        await EtcdStore.open([])


@pytest.mark.parametrize(
    ("version", "tells"),
    [
        ("3.3.27", False),
        ("3.4.30", False),
        ("3.4.31", True),
        ("3.5.1", False),
        ("3.5.13", True),
        ("3.6.0-rc.1", True),
        ("4.0.0", True),
        ("", False),
    ],
)
def test_which_versions_tell_true_progress(version: str, tells: bool) -> None:
    assert tells_true_progress(version) is tells
