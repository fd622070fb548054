import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kit.certificates import Authority
from pykubelet.base.errors import Invalid
from pykubelet.web.key_pairs import KeyPair, add_key_pair, key_pem, read_pem, stamp, write_private


def test_a_key_is_written_for_its_owner_alone_and_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "tls.key"
    write_private(path, b"secret")

    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_an_interrupted_writer_or_a_stranger_left_there_is_not_written_through(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "tls.key", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    (tmp_path / ".tls.key.new").symlink_to(elsewhere)

    write_private(path, b"secret")

    assert (path.read_bytes(), elsewhere.read_bytes()) == (b"secret", b"untouched")


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"nowhere cannot be read: No such file"):
        read_pem(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Invalid, match=r"file/tls\.key cannot be written: "):
        write_private(tmp_path / "file" / "tls.key", b"")
    with (tmp_path / "huge").open("wb") as huge:
        os.truncate(huge.fileno(), 17 << 20)
    with pytest.raises(Invalid, match=r"huge is larger than 16,777,216 bytes"):
        read_pem(tmp_path / "huge")


def test_a_stamp_changes_when_a_file_does_and_when_a_link_leads_elsewhere(tmp_path: Path) -> None:
    link = tmp_path / "link"
    assert stamp(link) is None
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"")
    link.symlink_to(tmp_path / "one")
    first = stamp(link)
    link.unlink()
    link.symlink_to(tmp_path / "two")
    second = stamp(link)
    (tmp_path / "two").write_bytes(b"more")

    assert len({first, second, stamp(link)}) == 3


def test_a_pair_is_used_only_when_both_fit(tmp_path: Path) -> None:
    first, second = Authority().issue("a", hosts=["a"]), Authority().issue("b", hosts=["b"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    add_key_pair(context, KeyPair(first.certificate, first.key), "here")
    add_key_pair(context, KeyPair(first.key + first.certificate, b""), "both in one")

    with pytest.raises(Invalid, match="here do not belong together"):
        add_key_pair(context, KeyPair(first.certificate, second.key), "here")
    with pytest.raises(Invalid, match="here cannot be read: they have to be PEM"):
        add_key_pair(context, KeyPair(b"rubbish", first.key), "here")


def test_a_key_is_not_shown_by_accident() -> None:
    assert "secret" not in repr(KeyPair(b"certificate", b"secret"))


def test_a_key_can_be_read_again() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    read = serialization.load_pem_private_key(key_pem(key), password=None)
    assert read.public_key() == key.public_key()
