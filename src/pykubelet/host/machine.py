"""The facts of this machine that a node reports: what it has, what runs on it, and where it can be reached."""

import fcntl
import ipaddress
import os
import re
import shlex
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from pykubelet.base.errors import Invalid
from pykubelet.base.huge_pages import page_size
from pykubelet.host.threads import in_thread
from pykubelet.pod.ports.node import MachineFacts

Family = Literal[4, 6]

LOOPBACK: Final = "127.0.0.1"
_GO_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "i386": "386",
    "i486": "386",
    "i586": "386",
    "i686": "386",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "armv8l": "arm",
    "loongarch64": "loong64",
}
_MACHINE_ID: Final = ("etc/machine-id", "var/lib/dbus/machine-id")
_SYSTEM_UUID: Final = (
    "sys/class/dmi/id/product_uuid",
    "proc/device-tree/system-id",
    "proc/device-tree/vm,uuid",
    *_MACHINE_ID,  # the others are not on every machine, and for root alone
)
_OS_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")
_HUGEPAGES: Final = "sys/kernel/mm/hugepages"
_SOCKETS: Final[Mapping[Family, tuple[socket.AddressFamily, str]]] = {
    4: (socket.AF_INET, "192.0.2.1"),
    6: (socket.AF_INET6, "2001:db8::1"),
}
"""By family: an address for documentation, which belongs to nobody: only a default route leads there."""
_SIOCGIFADDR: Final = 0x8915
_UNUSABLE_FLAGS: Final = 0x40 | 0x20 | 0x08  # tentative, deprecated, duplicate


class LocalMachine:
    """`root_dir` lies on the file system that pods write to; it need not exist yet. `hostname` and `node_ips` are what
    people chose instead of what would be found here: at most one address of each family, where an unspecified one
    (`0.0.0.0`, `::`) stands for the best of its family. `root` is where /proc, /sys and /etc are.

    Raises Invalid for a node IP that is none.
    """

    def __init__(
        self,
        root_dir: str,
        *,
        hostname: str = "",
        node_ips: Iterable[str] = (),
        root: str = "/",
        routed: Callable[[Family], str] | None = None,
    ) -> None:
        self._root_dir = Path(root_dir)
        self._hostname = hostname
        self._given = checked_ips(node_ips)
        self._root = Path(root)
        self._routed = routed or route_address
        self._cores: tuple[str, int, int] = ("", 0, 0)

    async def facts(self) -> MachineFacts:
        return await in_thread(self.read)

    def read(self) -> MachineFacts:
        """As `facts`, for those who may wait."""
        memory = parse_meminfo(self._text("proc/meminfo"))
        machine, online = os.uname(), self._text("sys/devices/system/cpu/online")
        cores, sockets = self._topology(online)
        return MachineFacts(
            hostname=(self._hostname or machine.nodename).strip().lower(),
            ips=chosen_ips(self._given, self._routed, self._interface_addresses),
            cpus_online=online,
            cpus=count_cpus(online) or os.cpu_count() or 1,
            cpu_cores=cores,
            cpu_sockets=sockets,
            memory=memory.get("MemTotal", 0),
            storage=self._storage(),
            swap=memory.get("SwapTotal", 0),
            hugepages=self._hugepages(),
            architecture=go_architecture(machine.machine),
            kernel_version=self._text("proc/sys/kernel/osrelease") or machine.release,
            os_image=pretty_name(self._text(*_OS_RELEASE)),
            machine_id=self._text(*_MACHINE_ID),
            system_uuid=self._text(*_SYSTEM_UUID),
            boot_id=self._text("proc/sys/kernel/random/boot_id"),
            cgroup_version=self._cgroup_version(),
            has_app_armor=self._has_app_armor(),
        )

    # --- inside

    def _text(self, *paths: str) -> str:
        """The content of the first of the files that can be read and is not empty."""
        for path in paths:
            try:
                content = (self._root / path).read_bytes()
            except OSError:
                continue
            if text := content.decode(errors="replace").strip(" \t\r\n\0"):
                return text
        return ""

    def _has_app_armor(self) -> bool:
        """Whether the kernel has it, and it is not switched off."""
        mounted = (self._root / "sys/kernel/security/apparmor").exists()
        return mounted and self._text("sys/module/apparmor/parameters/enabled").startswith("Y")

    def _cgroup_version(self) -> int:
        folder = self._root / "sys/fs/cgroup"
        if (folder / "cgroup.controllers").exists():
            return 2
        return 1 if (folder / "memory").exists() or (folder / "cpu").exists() else 0

    def _topology(self, online: str) -> tuple[int, int]:
        """Cores and sockets; looked at again only when other cpus are there."""
        if self._cores[0] != online:
            folder = self._root / "sys/devices/system/cpu"
            cores = set()
            for cpu in folder.glob("cpu[0-9]*/topology"):
                place = str(cpu.relative_to(self._root))
                cores.add((self._text(f"{place}/physical_package_id"), self._text(f"{place}/core_id")))
            self._cores = (online, len(cores), len({socket for socket, _ in cores}))
        return self._cores[1:]

    def _storage(self) -> int | None:
        for folder in (self._root_dir, *self._root_dir.parents):
            try:
                system = os.statvfs(folder)
            except FileNotFoundError:
                continue  # it will be made below a folder that is there
            except OSError:
                return None
            return system.f_blocks * system.f_frsize
        return None

    def _hugepages(self) -> dict[int, int]:
        try:
            folders = sorted(os.listdir(self._root / _HUGEPAGES))
        except OSError:  # a kernel without huge pages
            return {}
        pages: dict[int, int] = {}
        for folder in folders:
            size = page_size(folder)
            count = self._text(f"{_HUGEPAGES}/{folder}/nr_hugepages")
            if size and count.isdecimal():
                pages[size] = size * int(count)
        return pages

    def _interface_addresses(self) -> Iterator[str]:
        yield from _ipv4_addresses()
        yield from parse_if_inet6(self._text("proc/net/if_inet6"))


# --- what the files say


def parse_meminfo(text: str) -> dict[str, int]:
    """`MemTotal: 2048 kB` -> bytes by name."""
    found = re.findall(r"^([\w()]+):\s+(\d+) kB$", text, re.MULTILINE | re.ASCII)
    return {name: int(amount) * 1024 for name, amount in found}


def count_cpus(text: str) -> int:
    """How many there are in a list such as `0-3,8`; 0 for what is no such list."""
    total = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII)
        if match is None:
            return 0
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total


def pretty_name(os_release: str) -> str:
    """The name for people in an os-release file, which is written as a shell reads it."""
    for line in os_release.splitlines():
        name, _, value = line.strip().partition("=")
        if name == "PRETTY_NAME":
            try:
                words = shlex.split(value)
            except ValueError:
                words = [value.strip("\"'")]
            return " ".join(words) or "Linux"
    return "Linux"


def go_architecture(machine: str) -> str:
    """The kernel's word for an architecture, in the spelling that images and labels use. Many are the same."""
    return _GO_ARCHITECTURES.get(machine, machine)


def parse_if_inet6(text: str) -> Iterator[str]:
    """The IPv6 addresses in /proc/net/if_inet6 that can be used now."""
    for digits, flags in re.findall(r"^([0-9a-f]{32}) \S+ \S+ \S+ ([0-9a-f]{2,8}) ", text, re.MULTILINE):
        if not int(flags, 16) & _UNUSABLE_FLAGS:
            yield str(ipaddress.IPv6Address(bytes.fromhex(digits)))


# --- where the node can be reached


def checked_ips(texts: Iterable[str]) -> tuple[str, ...]:
    """Node IPs as people gave them, in their canonical spelling. Raises Invalid."""
    ips = []
    for text in texts:
        try:
            ips.append(ipaddress.ip_address(text.strip()))
        except ValueError:
            raise Invalid(f"the node IP {text!r} is not an IP address") from None
    if len({ip.version for ip in ips}) != len(ips):
        raise Invalid(f"a node has at most one IP of each family, but is given {', '.join(map(str, ips))}")
    return tuple(map(str, ips))


def chosen_ips(
    given: tuple[str, ...], routed: Callable[[Family], str], configured: Callable[[], Iterable[str]]
) -> tuple[str, ...]:
    """The node's addresses: those given, else the one that this machine uses to reach others, else any, else loopback.

    `routed` tells for a family the address that the default route leaves from, empty when there is none; `configured`
    are all addresses of this machine.
    """

    def best(*families: Family) -> str:
        for family in families:
            if ip := routed(family):
                return ip
        usable = [ip for ip in map(ipaddress.ip_address, configured()) if not (ip.is_loopback or ip.is_link_local)]
        return next((str(ip) for family in families for ip in usable if ip.version == family), "")

    if not given:
        return (best(4, 6) or LOOPBACK,)
    ips = []
    for ip in map(ipaddress.ip_address, given):
        ips.append(best(ip.version) if ip.is_unspecified else str(ip))
    return tuple(filter(None, ips)) or (LOOPBACK,)


def route_address(family: Family) -> str:
    """The address that packets to far away would have, found without sending any; empty when there is no way there."""
    kind, far_away = _SOCKETS[family]
    try:
        with socket.socket(kind, socket.SOCK_DGRAM) as unsent:
            unsent.connect((far_away, 9))
            ip = ipaddress.ip_address(unsent.getsockname()[0].partition("%")[0])
    except OSError:
        return ""
    return "" if ip.is_loopback or ip.is_link_local or ip.is_unspecified else str(ip)


def _ipv4_addresses() -> Iterator[str]:
    """The first one of each interface, in the order in which the interfaces came up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in sorted(socket.if_nameindex()):
            request = struct.pack("40s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
            except OSError:  # it has none
                continue
            yield socket.inet_ntoa(answer[20:24])
