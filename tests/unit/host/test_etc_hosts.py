import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host import etc_hosts
from pykubelet.host.etc_hosts import managed_hosts, write_etc_hosts

LOCAL = (
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)
ALIASES = [{"ip": "10.1.1.1", "hostnames": ["a", "b.c"]}, {"ip": "10.1.1.2", "hostnames": ["d"]}]


def pod_with(**spec: Any) -> Pod:
    return changed(make_pod(namespace="shop"), spec=codec.convert(PodSpec, {"containers": [], **spec}))


@pytest.mark.parametrize(
    ("spec", "ips", "entries"),
    [
        ({}, ("10.0.0.7",), "10.0.0.7\tweb\n"),
        ({"hostname": "box"}, ("10.0.0.7", "fd00::7"), "10.0.0.7\tbox\nfd00::7\tbox\n"),
        ({"subdomain": "sub"}, ("10.0.0.7",), "10.0.0.7\tweb.sub.shop.svc.cluster.local\tweb\n"),
        (
            {"hostAliases": ALIASES},
            ("10.0.0.7",),
            "10.0.0.7\tweb\n\n# Entries added by HostAliases.\n10.1.1.1\ta\tb.c\n10.1.1.2\td\n",
        ),
    ],
)
def test_a_pod_knows_itself_and_its_aliases(spec: dict[str, Any], ips: tuple[str, ...], entries: str) -> None:
    assert managed_hosts(pod_with(**spec), ips, "cluster.local") == LOCAL + entries


async def test_the_file_may_be_read_by_anybody(tmp_path: Path) -> None:
    file = tmp_path / "etc-hosts"
    assert await write_etc_hosts(str(file), pod_with(), ("10.0.0.7",)) == str(file)
    assert file.read_text() == LOCAL + "10.0.0.7\tweb\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


async def test_a_new_address_reaches_the_containers_that_have_the_file_mounted(tmp_path: Path) -> None:
    file = tmp_path / "etc-hosts"
    await write_etc_hosts(str(file), pod_with(hostAliases=ALIASES), ("10.0.0.7",))
    with file.open() as mounted:
        await write_etc_hosts(str(file), pod_with(), ("10.0.0.8",))
        assert mounted.read() == LOCAL + "10.0.0.8\tweb\n"


async def test_what_says_the_same_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "etc-hosts"
    await write_etc_hosts(str(file), pod_with(), ("10.0.0.7",))
    os.utime(file, (1, 1))
    await write_etc_hosts(str(file), pod_with(), ("10.0.0.7",))
    assert file.stat().st_mtime == 1


async def test_a_pod_without_an_address_has_no_file_yet(tmp_path: Path) -> None:
    file = tmp_path / "etc-hosts"
    assert await write_etc_hosts(str(file), pod_with(), ()) is None
    assert not file.exists()


async def test_on_the_hosts_network_it_is_the_hosts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts").write_bytes(b"127.0.0.1 localhost \xff\n")
    monkeypatch.setattr(etc_hosts, "HOSTS_FILE", str(tmp_path / "hosts"))
    file = tmp_path / "etc-hosts"
    await write_etc_hosts(str(file), pod_with(hostNetwork=True, hostAliases=ALIASES[1:]), ())
    assert file.read_bytes() == (
        b"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost \xff\n"
        b"\n# Entries added by HostAliases.\n10.1.1.2\td\n"
    )


async def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / "etc-hosts").symlink_to(tmp_path / "precious")
    with pytest.raises(Retry, match="cannot be written"):
        await write_etc_hosts(str(tmp_path / "etc-hosts"), pod_with(), ("10.0.0.7",))
    assert (tmp_path / "precious").read_text() == "x"
