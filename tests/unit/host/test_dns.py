from pathlib import Path

import pytest

from pykubelet.host.dns import HostDns, HostDnsSettings
from pykubelet.pod.container.dns import Dns


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 192.0.2.1\n")
    dns = HostDns(HostDnsSettings(resolv_conf=str(file), cluster_servers=("10.0.0.10",), cluster_domain="c"))
    first = dns.settings()
    assert first.host == Dns(servers=("192.0.2.1",))
    assert (first.cluster_servers, first.cluster_domain) == (("10.0.0.10",), "c")
    assert dns.settings() is first
    file.write_text("nameserver 192.0.2.22\n")
    assert dns.settings().host == Dns(servers=("192.0.2.22",))


def test_a_file_that_is_gone_or_broken_takes_nothing_away_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 192.0.2.1\n")
    dns = HostDns(HostDnsSettings(resolv_conf=str(file)))
    before = dns.settings()
    file.write_text("nameserver\n")
    assert dns.settings() is dns.settings() is before
    file.unlink()
    assert dns.settings() is dns.settings() is before
    assert [record.getMessage().partition("; ")[0] for record in caplog.records] == [
        f"{file}: line 1 names no name server",
        f"{file}: No such file or directory",
    ]


def test_no_file_at_all_may_be_wanted() -> None:
    assert not HostDns(HostDnsSettings(resolv_conf="")).settings().has_file
