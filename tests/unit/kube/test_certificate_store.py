from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kit.certificates import Authority
from pykubelet.base.errors import Invalid
from pykubelet.kube.certificate_store import CertificateStore, parsed_pair

NOW = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert CertificateStore(tmp_path / "none", "kubelet-client").current() is None


def test_the_newest_is_in_force_and_the_names_are_those_of_kubernetes(tmp_path: Path) -> None:
    clock, authority = Clock(), Authority()
    store = CertificateStore(tmp_path / "pki", "kubelet-client", now=clock)
    for name in ("one", "two"):
        issued = authority.issue(name)
        store.update(issued.certificate + authority.pem, issued.key)
        clock.now += timedelta(hours=1)
    pair = store.current()
    assert pair is not None
    assert pair.leaf.subject.rfc4514_string() == "CN=two"
    assert len(pair.chain) == 1
    assert sorted(path.name for path in (tmp_path / "pki").iterdir()) == [
        "kubelet-client-2026-01-31-12-00-05.pem",
        "kubelet-client-2026-01-31-13-00-05.pem",
        "kubelet-client-current.pem",
    ]
    assert store.current_path.readlink() == tmp_path / "pki" / "kubelet-client-2026-01-31-13-00-05.pem"
    assert store.current_path.stat().st_mode & 0o777 == 0o600


def test_an_update_that_was_broken_off_is_completed(tmp_path: Path) -> None:
    issued = Authority().issue("one")
    store = CertificateStore(tmp_path, "kubelet-client")
    store.update(issued.certificate, issued.key)
    store.current_path.rename(tmp_path / "kubelet-client-updated.pem")
    assert store.current() is not None
    assert store.current_path.is_symlink()


def test_a_pair_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    authority = Authority()
    one, two = authority.issue("one"), authority.issue("two")
    store = CertificateStore(tmp_path, "kubelet-client")
    store.update(one.certificate, one.key)
    with pytest.raises(Invalid, match="do not belong together"):
        store.update(two.certificate, one.key)
    with pytest.raises(Invalid, match="no certificate"):
        store.update(b"rubbish", one.key)
    with pytest.raises(Invalid, match="key cannot be read"):
        store.update(one.certificate, b"rubbish")
    assert store.current() == parsed_pair(one.certificate, one.key, "")


def test_a_file_in_the_place_of_the_link_is_left_alone(tmp_path: Path) -> None:
    issued = Authority().issue("one")
    store = CertificateStore(tmp_path, "kubelet-client")
    store.current_path.write_bytes(issued.certificate + issued.key)
    assert store.current() is not None
    with pytest.raises(Invalid, match="has to be a symbolic link"):
        store.update(issued.certificate, issued.key)


def test_a_key_is_not_shown() -> None:
    issued = Authority().issue("one")
    assert "PRIVATE" not in repr(parsed_pair(issued.certificate, issued.key, ""))
