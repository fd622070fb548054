"""A reading in which everything has a value, and Prometheus' text read back strictly."""

import re
from datetime import UTC, datetime

from pykubelet.api.struct import changed
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.stats.stats import (
    ContainerReading,
    Cpu,
    Disk,
    DiskActivity,
    DiskIo,
    GroupReading,
    Interface,
    Memory,
    NodeReading,
    PodReading,
    Pressure,
    Reading,
    SandboxReading,
    TaskStates,
    Usage,
)

AT = 1_700_000_000_123_000_000
MADE = datetime(2023, 11, 14, 20, 0, 0, 500_000, tzinfo=UTC)
FACTS = MachineFacts(
    hostname="n1",
    ips=("10.0.0.1",),
    cpus=4,
    cpu_cores=2,
    cpu_sockets=1,
    memory=8 << 30,
    swap=1024,
    machine_id="m",
    boot_id="b",
    system_uuid="s",
)
LINE = re.compile(r'([a-z0-9_]+)(?:\{((?:[a-zA-Z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([0-9.e+-]+)(?: (\d+))?')
LABEL = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')

Sample = tuple[float, str | None]


def usage(total: int, quota: int = 0) -> Usage:
    return Usage(
        at=AT,
        cpu=Cpu(
            total=total, user=1, system=2, quota=quota, period=100_000, shares=256, pressure=Pressure(7_000_000, 5)
        ),
        memory=Memory(
            usage=10, working_set=8, rss=5, page_faults=3, limit=20, swap=2, swap_limit=6, pressure=Pressure(8, 6)
        ),
        io_pressure=Pressure(9, 4),
        io=(DiskIo(device="/dev/vda", numbers="254:0", read_bytes=1, written_bytes=2, reads=3, writes=4),),
        processes=2,
        threads=5,
        threads_max=0,
        descriptors=9,
        sockets=3,
        open_files_limit=1024,
        states=TaskStates(running=1, sleeping=4),
        loads=(1500, 0),
        oom_kills=1,
    )


def reading(container: str = "c") -> Reading:
    disk = Disk(at=AT, device="/dev/vda1", capacity=100, available=60, used=40, inodes=10, inodes_free=7)
    activity = DiskActivity(**{name: 1000 + number for number, name in enumerate(DiskActivity.__struct_fields__)})
    whole = changed(disk, device="/dev/vda", activity=activity)
    eth0 = Interface(name="eth0", rx_bytes=11, tx_bytes=12)
    box = SandboxReading(id="s1", image="pause:3", group="/kubepods/podu/s1", usage=usage(1_000))
    app = ContainerReading(
        id="c1",
        name=container,
        image="app:1",
        group="/kubepods/podu/c1",
        created_at=MADE,
        usage=usage(2_500_000_000, 5),
    )
    pod = PodReading(
        uid="u",
        name="web",
        namespace="default",
        created_at=MADE,
        group="/kubepods/podu",
        usage=usage(3_500_000_000),
        containers=(app,),
        sandbox=box,
        interfaces=(eth0,),
    )
    plain = PodReading(
        uid="v", name="plain", namespace="default", created_at=MADE, group="", usage=usage(9), interfaces=(eth0,)
    )
    kubepods = GroupReading(group="/kubepods", usage=usage(4_000_000_000), started=1.0)
    node = NodeReading(
        usage=usage(9_000_000_000), booted=5.0, interfaces=(eth0,), disks=(disk, whole), groups=(kubepods,)
    )
    return Reading(at=AT, node=node, pods=(pod, plain), has_details=True)


def samples(text: str) -> dict[str, dict[frozenset[tuple[str, str]], Sample]]:
    """Every series by name and labels. Checks the rules of the format on the way."""
    found: dict[str, dict[frozenset[tuple[str, str]], Sample]] = {}
    typed = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed = line.split()[2]
            assert typed not in found, f"{typed} comes twice"
            found[typed] = {}
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            name, labels, value, stamp = match.groups()
            assert name == typed, line
            pairs = LABEL.findall(labels or "")
            assert pairs == sorted(pairs), line
            assert frozenset(pairs) not in found[name], f"{line} comes twice"
            found[name][frozenset(pairs)] = (float(value), stamp)
    assert list(found) == sorted(found)
    return found


def one(found: dict[frozenset[tuple[str, str]], Sample], **labels: str) -> Sample:
    """The only sample with these labels among its own."""
    (sample,) = [sample for key, sample in found.items() if labels.items() <= dict(key).items()]
    return sample


class Fixed:
    """Gives one reading, or fails."""

    def __init__(self, found: Reading | Exception) -> None:
        self.found = found
        self.asked: list[bool] = []

    async def read(self, *, details: bool = True) -> Reading:
        self.asked.append(details)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found
