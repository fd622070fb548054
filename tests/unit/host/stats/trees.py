"""A made-up machine: /proc and control groups of either version, as files below one folder."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats import StatsReader, StatsSettings
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.stats.stats import ImageStore, Place

MADE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = 1_000_000_000
NET = (
    "Inter-|   Receive                            |  Transmit\n"
    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier\n"
    "    lo: 99 9 0 0 0 0 0 0 99 9 0 0 0 0 0 0\n"
    "  eth0:1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n"
)
STAT = "{pid} (a ) b) R 1 1 1 0 -1 0 10 0 2 0 5 6 7 8 20 0 3 0 100 1000 200 0\n"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max processes             unlimited            unlimited            processes \n"
    "Max open files            1024                 524288               files     \n"
)
DISKS = " 254 0 vda 100 5 2000 30 200 6 4000 50 1 70 80 0 0 0 0 0 0\n 7 0 loop0 0\n"
CALM = "avg10=0.00 avg60=0.00 avg300=0.00"
V1 = {
    "cpuacct": {"cpuacct.usage": "5000000000\n", "cpuacct.stat": "user 300\nsystem 200\n"},
    "cpu": {
        "cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
        "cpu.shares": "256\n",
        "cpu.cfs_quota_us": "50000\n",
        "cpu.cfs_period_us": "100000\n",
        "cgroup.procs": "",
    },
    "memory": {
        "memory.usage_in_bytes": "1000000\n",
        "memory.stat": "cache 1\nrss 1\npgfault 77\npgmajfault 7\ntotal_cache 400000\ntotal_rss 500000\n"
        "total_mapped_file 60000\ntotal_swap 11\ntotal_inactive_file 300000\ntotal_active_file 90000\n",
        "memory.max_usage_in_bytes": "1200000\n",
        "memory.failcnt": "3\n",
        "memory.kmem.usage_in_bytes": "5000\n",
        "memory.limit_in_bytes": "2000000\n",
        "memory.soft_limit_in_bytes": "9223372036854771712\n",
        "memory.memsw.limit_in_bytes": "9223372036854771712\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    },
    "pids": {"pids.current": "6\n", "pids.max": "max\n"},
    "blkio": {
        "blkio.throttle.io_service_bytes_recursive": "254:0 Read 4096\n254:0 Write 8192\n254:0 Total 12288\nTotal 1\n",
        "blkio.throttle.io_serviced_recursive": "254:0 Read 1\n254:0 Write 2\n254:0 Total 3\nTotal 3\n",
    },
}
V2 = {
    "cpu.stat": "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\n"
    "nr_periods 10\nnr_throttled 4\nthrottled_usec 2000000\n",
    "cpu.weight": "10\n",
    "cpu.max": "50000 100000\n",
    "cpu.pressure": f"some avg10=1.50 avg60=0.00 avg300=0.00 total=7000000\nfull {CALM} total=5\n",
    "memory.current": "1000000\n",
    "memory.stat": "anon 500000\nfile 400000\nkernel 5000\nfile_mapped 60000\ninactive_file 300000\nactive_file 90000\n"
    "pgfault 77\npgmajfault 7\n",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n",
    "memory.peak": "1200000\n",
    "memory.max": "2000000\n",
    "memory.min": "0\n",
    "memory.swap.current": "11\n",
    "memory.swap.max": "max\n",
    "memory.pressure": f"some {CALM} total=8\nfull {CALM} total=6\n",
    "io.stat": "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
    "io.pressure": f"some {CALM} total=9\nfull {CALM} total=9\n",
    "pids.current": "6\n",
    "pids.max": "max\n",
    "cgroup.procs": "",
}


class FakeMachine:
    def __init__(self, root: Path, *, unified: bool) -> None:
        self.root = root
        self.unified = unified
        self.proc, self.sys, self.groups = root / "proc", root / "sys", root / "cgroup"
        self.dirs = PodDirs(str(root / "kubelet"), str(root / "logs"))
        if unified:
            mounts = [f"30 1 0:26 / {self.groups} rw shared:4 - cgroup2 cgroup2 rw,nsdelegate"]
        else:
            mounts = [
                f"{30 + number} 1 0:{30 + number} / {self.groups}/{name} rw - cgroup cgroup rw,{name}"
                for number, name in enumerate(V1)
            ]
        self.write("proc/self/mountinfo", "\n".join(mounts) + "\n")
        self.write("proc/self/cgroup", self.membership("/system.slice/pykubelet.service"))
        self.write("proc/1/net/dev", NET)
        self.write("proc/meminfo", "MemTotal: 8000 kB\nMemFree: 2000 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\n")
        self.write("proc/loadavg", "0.1 0.2 0.3 2/345 6789\n")
        self.write("proc/diskstats", DISKS)
        self.write("proc/uptime", "1000.00 2000.00\n")
        self.write("proc/sys/kernel/pid_max", "4194304\n")
        self.write("proc/sys/kernel/threads-max", "30000\n")
        self.write("sys/dev/block/254:0/uevent", "MAJOR=254\nMINOR=0\nDEVNAME=vda\nDEVTYPE=disk\n")
        for path in ("", "/kubepods", "/kubepods/burstable", "/system.slice/pykubelet.service"):
            self.group(path)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def membership(self, path: str) -> str:
        if self.unified:
            return f"0::{path}\n"
        return "".join(f"{number}:{name}:{path}\n" for number, name in enumerate(V1, 1)) + "0::/\n"

    def group(self, path: str, **files: str) -> None:
        """All files of a group, some with other content: `cpu__stat` stands for cpu.stat."""
        changes = {name.replace("__", "."): text for name, text in files.items()}
        if self.unified:
            for name, text in (V2 | changes).items():
                self.write(f"cgroup{path}/{name}", text)
            return
        for controller, own in V1.items():
            for name, text in (own | {key: text for key, text in changes.items() if key in own}).items():
                self.write(f"cgroup/{controller}{path}/{name}", text)

    def process(self, pid: int, path: str) -> None:
        self.write(f"proc/{pid}/cgroup", self.membership(path))
        self.write(f"proc/{pid}/net/dev", NET)
        self.write(f"proc/{pid}/stat", STAT.format(pid=pid))
        self.write(f"proc/{pid}/limits", LIMITS)
        files = self.root / f"proc/{pid}/fd"
        files.mkdir(exist_ok=True)
        for number, what in enumerate(("/dev/null", "pipe:[1]", "socket:[2]", "socket:[3]")):
            link = files / str(number)
            if not link.is_symlink():
                link.symlink_to(what)

    def pod(self, name: str, first_pid: int, containers: Sequence[str] = ("c",)) -> ObservedPod:
        """A pod that runs, with its groups and processes."""
        uid = f"uid-{name}"
        parent = f"/kubepods/burstable/pod{uid}"
        self.group(parent, cgroup__procs="")
        for number, each in enumerate(("sandbox", *containers)):
            path = f"{parent}/{each}-{name}"
            self.group(path, cgroup__procs=f"{first_pid + number}\n")
            self.process(first_pid + number, path)
        return ObservedPod(
            uid=uid,
            name=name,
            namespace="default",
            sandboxes=(ObservedSandbox(id=f"sandbox-{name}", ready=True, created_at=MADE),),
            containers=tuple(running(f"{each}-{name}", each) for each in reversed(containers)),
        )


def running(container_id: str, name: str = "c") -> ObservedContainer:
    return ObservedContainer(
        id=container_id, name=name, state=State.RUNNING, image="busybox:1.36", created_at=MADE, started_at=MADE
    )


class FakePlaces:
    def __init__(self, places: Mapping[str, Place]) -> None:
        self.all = dict(places)
        self.asked = 0

    async def places(self, pods: Sequence[ObservedPod], *, details: bool) -> Mapping[str, Place]:
        self.asked += 1
        return self.all

    async def images(self) -> ImageStore | None:
        return None


class Clock:
    def __init__(self) -> None:
        self.ns = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.ns


def places_of(pods: Mapping[int, ObservedPod]) -> FakePlaces:
    """By the pid of each pod's first process."""
    found: dict[str, Place] = {}
    for first, pod in pods.items():
        found[pod.sandboxes[0].id] = Place(pid=first, image="pause:3")
        for number, container in enumerate(reversed(pod.containers), 1):
            found[container.id] = Place(pid=first + number, written=12345, written_inodes=6)
    return FakePlaces(found)


def reader_of(
    machine: FakeMachine,
    pods: Mapping[int, ObservedPod],
    clock: Clock,
    places: FakePlaces | None = None,
    volume_period: float = 60.0,
) -> StatsReader:
    async def observe() -> Sequence[ObservedPod]:
        return tuple(pods.values())

    settings = StatsSettings(proc=str(machine.proc), sys=str(machine.sys), fresh=0.0, volume_period=volume_period)
    return StatsReader(observe, places or places_of(pods), machine.dirs, settings=settings, now=clock)
