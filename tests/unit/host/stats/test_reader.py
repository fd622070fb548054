"""Readings of made-up machines, with control groups of either version."""

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host.mount import MountPoint
from pykubelet.host.stats import StatsReader, StatsSettings, processes
from pykubelet.host.stats.files import TICK
from pykubelet.host.stats.pods import PodReader
from pykubelet.host.stats.storage import file_systems
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.stats.stats import (
    Cpu,
    DiskActivity,
    DiskIo,
    Interface,
    Place,
    PodReading,
    Pressure,
    TaskStates,
    Usage,
)
from unit.host.stats.trees import MADE, SECOND, STAT, Clock, FakeMachine, FakePlaces, places_of, reader_of

MEMORY = {
    "usage": 1_000_000,
    "working_set": 700_000,
    "rss": 500_000,
    "cache": 400_000,
    "mapped_file": 60_000,
    "active_file": 90_000,
    "inactive_file": 300_000,
    "kernel": 5000,
    "swap": 11,
    "max_usage": 1_200_000,
    "failures": 3,
    "page_faults": 77,
    "major_page_faults": 7,
    "limit": 2_000_000,
    "reservation": 0,
    "swap_limit": None,
}


@pytest.fixture(params=[False, True], ids=["version 1", "version 2"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path, unified=request.param)


async def read_one(machine: FakeMachine, pod: ObservedPod, places: FakePlaces | None = None) -> PodReading:
    reader = reader_of(machine, {100: pod}, Clock(), places)
    (found,) = (await reader.read()).pods
    await reader.close()
    return found


async def test_both_versions_of_control_groups_say_the_same(machine: FakeMachine) -> None:
    pod = await read_one(machine, machine.pod("web", 100))
    (container,) = pod.containers
    used = container.usage
    assert used.memory is not None
    assert used.cpu is not None
    assert {name: getattr(used.memory, name) for name in MEMORY} == MEMORY
    counted = Cpu(
        total=5 * SECOND,
        user=3 * SECOND,
        system=2 * SECOND,
        periods=10,
        throttled_periods=4,
        throttled=2 * SECOND,
        shares=237 if machine.unified else 256,
        quota=50_000,
        period=100_000,
    )
    assert changed(used.cpu, pressure=None) == counted
    assert used.io == (
        DiskIo(device="/dev/vda", numbers="254:0", read_bytes=4096, written_bytes=8192, reads=1, writes=2),
    )
    assert (used.threads, used.threads_max, used.oom_kills, used.processes) == (6, 0, 1, 1)
    assert (used.descriptors, used.sockets, used.open_files_limit) == (4, 2, 1024)
    assert used.states == TaskStates(running=1)
    if machine.unified:
        assert used.cpu.pressure == Pressure(some=7_000_000, full=5, some_shares=(1.5, 0.0, 0.0))


async def test_a_pod_has_its_own_group_its_network_and_what_its_containers_wrote(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100, ("app", "side"))
    machine.group("/kubepods/burstable/poduid-web", memory__usage_in_bytes="4000000\n", memory__current="4000000\n")
    machine.write("logs/default_web_uid-web/app/0.log", "x" * 5000)
    machine.write("kubelet/pods/uid-web/etc-hosts", "127.0.0.1 localhost\n")
    pod = await read_one(machine, seen)
    assert pod.group == "/kubepods/burstable/poduid-web"
    assert pod.usage.memory is not None
    assert pod.usage.memory.usage == 4_000_000
    assert pod.created_at == MADE
    assert [each.name for each in pod.containers] == ["app", "side"]
    assert [each.group for each in pod.containers] == [f"{pod.group}/app-web", f"{pod.group}/side-web"]
    eth0 = Interface(
        name="eth0",
        rx_bytes=1000,
        rx_packets=10,
        rx_errors=1,
        rx_dropped=2,
        tx_bytes=2000,
        tx_packets=20,
        tx_errors=3,
        tx_dropped=4,
    )
    assert pod.interfaces == (eth0,)
    assert pod.sandbox is not None
    assert (pod.sandbox.image, pod.sandbox.group) == ("pause:3", f"{pod.group}/sandbox-web")
    app = pod.containers[0]
    assert app.root is not None
    assert app.logs is not None
    assert (app.root.used, app.root.inodes_used) == (12345, 6)
    assert app.logs.used is not None
    assert app.logs.used >= 5000
    assert app.logs.inodes_used == 1
    assert pod.ephemeral is not None
    assert (
        pod.ephemeral.used
        == 2 * 12345 + app.logs.used + (machine.root / "kubelet/pods/uid-web/etc-hosts").stat().st_blocks * 512
    )
    assert pod.ephemeral.inodes_used == 2 * 6 + 1 + 1


async def test_volumes_are_left_alone_where_people_want_that(machine: FakeMachine) -> None:
    machine.write("kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/cache/file", "x" * 5000)
    seen = machine.pod("web", 100)
    for period, names in ((60.0, ["cache"]), (-1.0, [])):
        reader = reader_of(machine, {100: seen}, Clock(), volume_period=period)
        (pod,) = (await reader.read()).pods
        assert [each.name for each in pod.volumes] == names
        await reader.close()


async def test_what_some_pods_have_written_without_anything_else_of_them(machine: FakeMachine) -> None:
    for name in ("web", "other"):
        machine.write(f"kubelet/pods/uid-{name}/volumes/kubernetes.io~empty-dir/cache/file", "x" * 5000)
    machine.write("logs/default_web_uid-web/app/0.log", "x" * 5000)
    machine.write("layers/app-web/file", "x" * 9000)
    pods = {100: machine.pod("web", 100, ("app",)), 200: machine.pod("other", 200)}
    places = places_of(pods)
    (app,) = pods[100].containers
    places.all[app.id] = changed(places.all[app.id], written=None, layer=str(machine.root / "layers/app-web"))
    reader = reader_of(machine, pods, Clock(), places)
    reading = await reader.storage(tuple(pods.values()), {"uid-web"})
    (pod,) = reading.pods
    (container,) = pod.containers
    (volume,) = pod.volumes
    assert pod.usage == container.usage == Usage(at=reading.at)
    assert reading.node.disk is not None
    assert container.root is not None
    assert container.logs is not None
    assert pod.ephemeral is not None
    sizes = [container.root.used, container.logs.used, volume.disk.used]
    assert [size and 5000 <= size < 40_000 for size in sizes] == [True] * 3
    assert pod.ephemeral.used == sum(filter(None, sizes))
    shown = (await reader.read()).pods[0].containers[0].root
    assert shown is not None
    assert shown.used == container.root.used, "everybody is told the same"
    await reader.close()


async def test_a_slice_of_systemd_is_the_pods_own_group_too(machine: FakeMachine) -> None:
    uid = "5d9a4b1e-0000-4000-8000-00000000cafe"
    above = "/kubepods.slice/kubepods-besteffort.slice"
    own = f"{above}/kubepods-besteffort-pod{uid.replace('-', '_')}.slice"
    seen = changed(machine.pod("web", 100), uid=uid)
    for path in ("/kubepods.slice", above, own, f"{own}/cri-containerd-1.scope"):
        machine.group(path)
    machine.process(101, f"{own}/cri-containerd-1.scope")
    pod = await read_one(machine, seen, FakePlaces({"c-web": Place(pid=101)}))
    assert pod.group == own


async def test_a_pod_without_a_group_of_its_own_uses_what_its_containers_use(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100, ("app", "side"))
    for number, name in enumerate(("app", "side"), 101):
        machine.group(f"/k8s.io/{name}")
        machine.process(number, f"/k8s.io/{name}")
    machine.process(100, "/k8s.io/sandbox")
    pod = await read_one(machine, seen)
    assert pod.group == ""
    assert pod.usage.memory is not None
    assert pod.usage.cpu is not None
    assert pod.usage.memory.working_set == 1_400_000
    assert pod.usage.cpu.total == 10 * SECOND


async def test_what_does_not_run_is_not_told(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100, ("app", "side"))
    ended = tuple(changed(each, state=State.EXITED) if each.name == "side" else each for each in seen.containers)
    pod = await read_one(machine, changed(seen, containers=ended))
    assert [each.name for each in pod.containers] == ["app"]


async def test_a_container_that_ends_meanwhile_spoils_nothing(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100, ("app", "side"))
    places = places_of({100: seen})
    places.all["side-web"] = Place(pid=999)  # there is no such process
    pod = await read_one(machine, seen, places)
    gone = next(each for each in pod.containers if each.name == "side")
    assert gone.usage == Usage(at=gone.usage.at)
    assert pod.containers[0].usage.cpu is not None


async def test_the_rate_is_what_was_used_between_two_readings(machine: FakeMachine) -> None:
    pods, clock = {100: machine.pod("web", 100)}, Clock()
    reader = reader_of(machine, pods, clock)
    first = (await reader.read()).pods[0].containers[0].usage.cpu
    assert first is not None
    assert first.rate is None
    clock.ns += 4 * SECOND
    path = "/kubepods/burstable/poduid-web/c-web"
    machine.group(path, cpuacct__usage="6000000000\n", cpu__stat="usage_usec 6000000\n" if machine.unified else "")
    second = (await reader.read()).pods[0].containers[0].usage.cpu
    assert second is not None
    assert second.rate == SECOND // 4
    await reader.close()


async def test_a_limit_that_is_changed_is_seen_within_seconds(machine: FakeMachine) -> None:
    pods, clock = {100: machine.pod("web", 100)}, Clock()
    reader = reader_of(machine, pods, clock)
    await reader.read()
    machine.group("/kubepods/burstable/poduid-web/c-web", memory__limit_in_bytes="5000000", memory__max="5000000")
    clock.ns += 11 * SECOND
    memory = (await reader.read()).pods[0].containers[0].usage.memory
    assert memory is not None
    assert memory.limit == 5_000_000
    await reader.close()


async def test_the_node_has_its_limits_its_groups_and_its_own_programs(machine: FakeMachine) -> None:
    reader = reader_of(machine, {100: machine.pod("web", 100)}, Clock())
    node = (await reader.read()).node
    await reader.close()
    assert node.usage.memory is not None
    assert node.usage.memory.limit == 8000 * 1024
    assert (node.usage.memory.swap, node.usage.memory.swap_limit) == (40 * 1024, 100 * 1024)
    assert node.usage.cpu is not None
    assert node.usage.cpu.total == 5 * SECOND
    assert (node.max_pid, node.tasks) == (30_000, 345)
    assert [each.name for each in node.interfaces] == ["eth0"]
    assert [each.group for each in node.groups] == ["/kubepods", "/kubepods/burstable"]
    assert {name: each.group for name, each in node.system.items()} == {
        "pods": "/kubepods",
        "kubelet": "/system.slice/pykubelet.service",
        "misc": "",
    }
    misc = node.system["misc"].usage
    assert misc.cpu == Cpu(total=0)  # on this machine every group says the same
    assert misc.memory is not None
    assert misc.memory.usage == 0
    assert node.disks == ()
    assert node.disk is not None
    assert node.disk.capacity == os.statvfs(machine.root).f_blocks * os.statvfs(machine.root).f_frsize
    assert node.booted > 0


async def test_the_top_of_version_2_has_no_count_of_its_own(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, unified=True)
    (tmp_path / "cgroup/memory.current").unlink()
    reader = reader_of(machine, {}, Clock())
    memory = (await reader.read()).node.usage.memory
    await reader.close()
    assert memory is not None
    assert (memory.usage, memory.working_set) == (900_000, 600_000)


async def test_a_machine_without_control_groups_counts_in_proc(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, unified=True)
    machine.write("proc/self/mountinfo", "")
    machine.write("proc/stat", "cpu  100 10 50 1000 5 1 2 0 0 0\n")
    reader = reader_of(machine, {}, Clock())
    usage = (await reader.read()).node.usage
    await reader.close()
    assert usage.cpu is not None
    assert usage.cpu.total == 163 * SECOND // 100
    assert usage.memory is not None
    assert usage.memory.usage == 6000 * 1024


async def test_without_details_only_processor_time_and_memory_are_read(machine: FakeMachine) -> None:
    reader = reader_of(machine, {100: machine.pod("web", 100)}, Clock())
    reading = await reader.read(details=False)
    await reader.close()
    (pod,) = reading.pods
    used = pod.containers[0].usage
    assert used.cpu is not None
    assert used.cpu.total == 5 * SECOND
    assert used.memory is not None
    assert (used.memory.working_set, used.memory.limit) == (700_000, 2_000_000)
    assert (used.io, used.threads, pod.interfaces, pod.ephemeral, reading.node.disk) == ((), None, None, None, None)


async def test_processes_are_added_up_where_no_group_counts(machine: FakeMachine) -> None:
    def process(pid: int, parent: int, user: int, waited: int, pages: int) -> None:
        words = [
            "S",
            str(parent),
            *["0"] * 9,
            str(user),
            "0",
            str(waited),
            "0",
            *["0"] * 2,
            "2",
            *["0"] * 3,
            str(pages),
        ]
        machine.write(f"proc/{pid}/stat", f"{pid} (a) b) {' '.join(words)}\n")
        machine.write(f"proc/{pid}/statm", f"{pages * 9} {pages} 1 1 0 1 0\n")

    process(50, 1, user=1000, waited=100, pages=500)  # the monitor: only what it has waited for counts
    process(51, 50, user=200, waited=0, pages=10)
    process(52, 51, user=300, waited=50, pages=20)
    process(60, 1, user=9999, waited=0, pages=9)
    seen = machine.pod("web", 100)
    pod = await read_one(machine, seen, FakePlaces({"c-web": Place(pid=51, tree=50, cgroups={})}))
    used = pod.containers[0].usage
    assert used.cpu is not None
    assert used.cpu.total == 650 * SECOND // 100
    assert used.memory is not None
    assert used.memory.working_set == 30 * os.sysconf("SC_PAGE_SIZE")
    assert used.memory.rss == 28 * os.sysconf("SC_PAGE_SIZE")
    assert (used.processes, used.threads) == (2, 4)
    assert pod.usage.cpu is not None
    assert pod.usage.cpu.total == used.cpu.total


# --- who asks


async def test_those_who_ask_at_once_or_in_a_moment_cost_one_reading(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100)
    places = places_of({100: seen})

    async def observe() -> Sequence[ObservedPod]:
        return (seen,)

    settings = StatsSettings(proc=str(machine.proc), sys=str(machine.sys), fresh=60.0)
    reader = StatsReader(observe, places, machine.dirs, settings=settings)
    brief = await reader.read(details=False)
    assert await reader.read(details=False) is brief
    assert places.asked == 1
    first, second, third = await asyncio.gather(reader.read(), reader.read(), reader.read(details=False))
    assert first is second
    assert third is brief
    assert places.asked == 2
    assert await reader.read(details=False) is first  # what has more will do for who asks for less
    await reader.close()


async def test_a_runtime_that_does_not_answer_is_asked_again(machine: FakeMachine) -> None:
    answers: list[ObservedPod | None] = [None, machine.pod("web", 100)]

    async def observe() -> Sequence[ObservedPod]:
        answer = answers.pop(0)
        if answer is None:
            raise Retry("the runtime does not answer")
        return (answer,)

    settings = StatsSettings(proc=str(machine.proc), sys=str(machine.sys))
    reader = StatsReader(observe, FakePlaces({"c-web": Place(pid=101)}), machine.dirs, settings=settings)
    with pytest.raises(Retry):
        await reader.read()
    assert len((await reader.read()).pods) == 1
    await reader.close()


async def test_a_runtime_that_is_a_program_of_its_own_is_found_behind_its_socket(
    machine: FakeMachine, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "runtime.sock"))
        listening.listen()
        machine.write(f"proc/{os.getpid()}/stat", STAT.format(pid=os.getpid()))  # it is we who listen
        settings = StatsSettings(proc=str(machine.proc), sys=str(machine.sys), runtime_socket=listening.getsockname())
        pods = PodReader(machine.dirs, settings, lambda path: None)
        system = pods.read((), {}, None, {}, 10 * SECOND, details=True).node.system
        assert set(system) == {"pods", "kubelet", "runtime", "misc"}
        assert system["runtime"].group == "/system.slice/pykubelet.service"


async def test_everything_on_the_machine_has_a_rate(machine: FakeMachine) -> None:
    clock = Clock()
    reader = reader_of(machine, {100: machine.pod("web", 100)}, clock)
    await reader.read(details=False)
    clock.ns += 10 * SECOND
    system = (await reader.read(details=False)).node.system
    await reader.close()
    assert {name: each.usage.cpu.rate for name, each in system.items() if each.usage.cpu} == {
        "pods": 0,
        "kubelet": 0,
        "misc": 0,
    }


async def test_shims_are_the_runtime_where_it_is_no_program_of_its_own(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100)
    machine.process(77, "/system.slice/pykubelet.service")
    reader = reader_of(machine, {100: seen}, Clock(), FakePlaces({"c-web": Place(pid=101, tree=77)}))
    system = (await reader.read(details=False)).node.system
    await reader.close()
    assert system["runtime"].usage.cpu == Cpu(total=11 * TICK, user=5 * TICK, system=6 * TICK)  # not its children's


async def test_where_no_group_counts_what_is_read_and_written_the_processes_say_it(machine: FakeMachine) -> None:
    seen = machine.pod("web", 100)
    machine.group(
        "/kubepods/burstable/poduid-web/c-web",
        cgroup__procs="101\n102\n",
        blkio__throttle__io_service_bytes_recursive="Total 0\n",
        io__stat="",
        blkio__throttle__io_serviced_recursive="Total 0\n",
    )
    for pid in (101, 102):
        machine.write(f"proc/{pid}/io", "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 512\n")
    pod = await read_one(machine, seen)
    (transfer,) = pod.containers[0].usage.io
    assert (transfer.read_bytes, transfer.written_bytes) == (8192, 1024)
    assert (transfer.reads, transfer.writes) == (None, None)  # nobody knows


def test_a_device_says_what_it_does(machine: FakeMachine) -> None:
    point = MountPoint(path="/", fs_type="ext4", source="/dev/vda", root="/")
    (disk,) = file_systems([point], 0, str(machine.proc))
    assert disk.activity == DiskActivity(
        reads=100,
        reads_merged=5,
        sectors_read=2000,
        read_time=30,
        writes=200,
        writes_merged=6,
        sectors_written=4000,
        write_time=50,
        in_progress=1,
        io_time=70,
        weighted_io_time=80,
    )


async def test_a_container_of_very_many_processes_is_not_looked_into_for_long(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_MOST_PROCESSES", 2)
    monkeypatch.setattr(processes, "_MOST_LINKS", 4)
    seen = machine.pod("web", 100)
    machine.group("/kubepods/burstable/poduid-web/c-web", cgroup__procs="".join(f"{pid}\n" for pid in range(101, 151)))
    for pid in range(101, 151):
        machine.process(pid, "/kubepods/burstable/poduid-web/c-web")
    used = (await read_one(machine, seen)).containers[0].usage
    assert used.processes == 50
    assert (used.states, used.descriptors) == (TaskStates(running=2), 8)
    assert used.sockets == 2  # of the first process, and no more
