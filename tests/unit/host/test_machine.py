import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.host.machine import (
    Family,
    LocalMachine,
    checked_ips,
    chosen_ips,
    count_cpus,
    go_architecture,
    parse_if_inet6,
    parse_meminfo,
    pretty_name,
    route_address,
)

MEMINFO = """\
MemTotal:       16307064 kB
MemFree:         1228072 kB
HugePages_Total:       0
SwapTotal:       2097148 kB
"""

IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 02 40 20 80     eth0
fd000000000000000000000000000002 02 40 00 80     eth0
fd000000000000000000000000000003 02 40 00 40     eth0
fd000000000000000000000000000004 02 40 00 20     eth0
20010db8000000000000000000000005 03 40 00 08     eth1
"""


def write(root: Path, path: str, content: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a small machine."""
    write(tmp_path, "proc/meminfo", MEMINFO)
    write(tmp_path, "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
    write(tmp_path, "proc/sys/kernel/random/boot_id", "b-1\n")
    write(tmp_path, "sys/devices/system/cpu/online", "0-3\n")
    write(tmp_path, "sys/class/dmi/id/product_uuid", "u-1\n")
    write(tmp_path, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
    write(tmp_path, "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
    write(tmp_path, "etc/machine-id", "m-1\n")
    write(tmp_path, "etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    return tmp_path


# --- the reader


async def test_a_machine_is_read_from_its_files(root: Path) -> None:
    facts = await LocalMachine(str(root), hostname="N1", node_ips=("10.0.0.1",), root=str(root)).facts()
    assert (facts.hostname, facts.ips) == ("n1", ("10.0.0.1",))
    assert (facts.cpus, facts.memory, facts.swap) == (4, 16307064 * 1024, 2097148 * 1024)
    assert facts.hugepages == {2 << 20: 1 << 30, 1 << 30: 0}
    assert (facts.kernel_version, facts.os_image) == ("6.1.0-18-amd64", "Debian GNU/Linux 12 (bookworm)")
    assert (facts.machine_id, facts.system_uuid, facts.boot_id) == ("m-1", "u-1", "b-1")
    assert facts.operating_system == "linux"


def test_the_storage_is_the_size_of_the_file_system(tmp_path: Path) -> None:
    system = os.statvfs(tmp_path)
    size = system.f_blocks * system.f_frsize
    assert LocalMachine(str(tmp_path)).read().storage == size


def test_a_folder_that_is_yet_to_be_made_counts_with_the_file_system_that_it_will_be_on(tmp_path: Path) -> None:
    machine = LocalMachine(str(tmp_path / "var" / "lib" / "kubelet"))
    assert machine.read().storage == LocalMachine(str(tmp_path)).read().storage


def test_storage_that_cannot_be_asked_for_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert LocalMachine(str(tmp_path / "file" / "below")).read().storage is None


def test_a_machine_without_any_of_the_files_still_has_facts(tmp_path: Path) -> None:
    facts = LocalMachine("/", root=str(tmp_path)).read()
    assert facts.cpus >= 1
    assert (facts.memory, facts.swap, facts.hugepages) == (0, 0, {})
    assert (facts.machine_id, facts.system_uuid, facts.boot_id) == ("", "", "")
    assert facts.os_image == "Linux"
    assert facts.kernel_version == os.uname().release
    assert facts.hostname == os.uname().nodename.lower()
    assert facts.ips


def test_the_machine_id_stands_in_for_a_uuid_that_this_user_may_not_read(root: Path) -> None:
    (root / "sys/class/dmi/id/product_uuid").unlink()
    assert LocalMachine("/", root=str(root)).read().system_uuid == "m-1"


def test_a_device_tree_ends_its_texts_with_a_zero(root: Path) -> None:
    (root / "sys/class/dmi/id/product_uuid").unlink()
    write(root, "proc/device-tree/system-id", "ppc-1\0")
    assert LocalMachine("/", root=str(root)).read().system_uuid == "ppc-1"


def test_an_empty_machine_id_is_looked_for_elsewhere(root: Path) -> None:
    write(root, "etc/machine-id", "\n")
    write(root, "var/lib/dbus/machine-id", "m-2\n")
    assert LocalMachine("/", root=str(root)).read().machine_id == "m-2"


def test_the_os_may_be_described_below_usr(root: Path) -> None:
    (root / "etc/os-release").unlink()
    write(root, "usr/lib/os-release", "PRETTY_NAME=Clear")
    assert LocalMachine("/", root=str(root)).read().os_image == "Clear"


def test_huge_pages_that_cannot_be_understood_are_left_out(root: Path) -> None:
    write(root, "sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages", "many")
    write(root, "sys/kernel/mm/hugepages/readme/nr_hugepages", "1")
    assert LocalMachine("/", root=str(root)).read().hugepages == {2 << 20: 1 << 30, 1 << 30: 0}


def test_this_machine_can_be_read() -> None:
    facts = LocalMachine("/").read()
    assert facts.memory > 0
    assert facts.storage
    assert ipaddress.ip_address(facts.ips[0])


# --- what the files say


def test_memory_is_counted_in_kilobytes_and_other_lines_are_not_memory() -> None:
    assert parse_meminfo(MEMINFO) == {
        "MemTotal": 16307064 * 1024,
        "MemFree": 1228072 * 1024,
        "SwapTotal": 2097148 * 1024,
    }


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0-1,4-7,9", 7), ("", 0), ("none", 0), ("0-", 0), ("²", 0)]
)
def test_cpus_are_counted(text: str, cpus: int) -> None:
    assert count_cpus(text) == cpus


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME='Arch Linux'", "Arch Linux"),
        ("NAME=x\n  PRETTY_NAME=Plain\nOTHER=y", "Plain"),
        ('PRETTY_NAME="The \\"best\\" one"', 'The "best" one'),
        ('PRETTY_NAME="unfinished', "unfinished"),
        ("PRETTY_NAME=", "Linux"),
        ('NAME="NoName"', "Linux"),
        ("", "Linux"),
    ],
)
def test_an_os_has_a_name_for_people(text: str, name: str) -> None:
    assert pretty_name(text) == name


@pytest.mark.parametrize(
    ("machine", "architecture"),
    [
        ("x86_64", "amd64"),
        ("aarch64", "arm64"),
        ("armv7l", "arm"),
        ("i686", "386"),
        ("loongarch64", "loong64"),
        ("ppc64le", "ppc64le"),
        ("s390x", "s390x"),
        ("riscv64", "riscv64"),
    ],
)
def test_architectures_are_spelled_as_go_does(machine: str, architecture: str) -> None:
    assert go_architecture(machine) == architecture


def test_ipv6_addresses_that_are_tentative_deprecated_or_duplicate_are_left_out() -> None:
    assert list(parse_if_inet6(IF_INET6)) == ["::1", "fe80::fc:ff:fe00:1", "fd00::2"]
    assert list(parse_if_inet6("nonsense\n\n")) == []


# --- where the node can be reached


@pytest.mark.parametrize(
    ("given", "routes", "configured", "chosen"),
    [
        (("10.9.9.9",), {4: "10.0.0.1"}, (), ("10.9.9.9",)),
        (("10.9.9.9", "fd00::9"), {}, (), ("10.9.9.9", "fd00::9")),
        ((), {4: "10.0.0.1", 6: "fd00::1"}, (), ("10.0.0.1",)),
        ((), {6: "fd00::1"}, ("10.0.0.2",), ("fd00::1",)),
        ((), {}, ("127.0.0.1", "169.254.1.1", "fd00::2", "10.0.0.2", "10.0.0.3"), ("10.0.0.2",)),
        ((), {}, ("127.0.0.1", "::1", "fe80::1", "fd00::2"), ("fd00::2",)),
        ((), {}, ("127.0.0.1", "::1", "fe80::1"), ("127.0.0.1",)),
        (("0.0.0.0",), {4: "10.0.0.1", 6: "fd00::1"}, (), ("10.0.0.1",)),
        (("::",), {4: "10.0.0.1", 6: "fd00::1"}, (), ("fd00::1",)),
        (("::",), {4: "10.0.0.1"}, ("fd00::2",), ("fd00::2",)),
        (("::", "0.0.0.0"), {4: "10.0.0.1", 6: "fd00::1"}, (), ("fd00::1", "10.0.0.1")),
        (("10.9.9.9", "::"), {}, (), ("10.9.9.9",)),
        (("::",), {}, (), ("127.0.0.1",)),
    ],
)
def test_a_node_has_the_ips_given_or_the_best_of_this_machine(
    given: tuple[str, ...], routes: dict[Family, str], configured: Iterable[str], chosen: tuple[str, ...]
) -> None:
    assert chosen_ips(given, lambda family: routes.get(family, ""), lambda: configured) == chosen


@pytest.mark.parametrize("given", [("10.0.0",), ("node-1",), ("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "fd00::1", "::")])
def test_node_ips_that_make_no_sense_are_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="IP"):
        checked_ips(given)


def test_node_ips_are_spelled_in_one_way() -> None:
    assert checked_ips((" 10.0.0.1", "FD00:0::1")) == ("10.0.0.1", "fd00::1")


def test_the_routed_address_is_never_loopback() -> None:
    for family in (4, 6):
        ip = route_address(family)
        assert not ip or not ipaddress.ip_address(ip).is_loopback


def test_the_addresses_of_interfaces_are_used_when_nothing_is_routed(root: Path) -> None:
    write(root, "proc/net/if_inet6", IF_INET6)
    facts = LocalMachine("/", node_ips=("::",), root=str(root), routed=lambda family: "").read()
    assert facts.ips == ("fd00::2",)


@pytest.mark.parametrize(
    ("enabled", "mounted", "has"), [("Y\n", True, True), ("N\n", True, False), ("Y\n", False, False)]
)
def test_app_armor_counts_when_the_kernel_has_it_and_it_is_not_switched_off(
    tmp_path: Path, enabled: str, mounted: bool, has: bool
) -> None:
    switch = tmp_path / "sys/module/apparmor/parameters/enabled"
    switch.parent.mkdir(parents=True)
    switch.write_text(enabled)
    if mounted:
        (tmp_path / "sys/kernel/security/apparmor").mkdir(parents=True)
    assert LocalMachine(str(tmp_path), root=str(tmp_path)).read().has_app_armor is has
