from datetime import UTC, datetime

from pykubelet.api import codec
from pykubelet.pod.stats.stats import (
    ContainerReading,
    Cpu,
    Disk,
    GroupReading,
    Interface,
    Memory,
    NodeReading,
    PodReading,
    Pressure,
    Reading,
    Usage,
    VolumeUsage,
)
from pykubelet.pod.stats.summary import summary

AT = 1_700_000_000_000_000_000
TIME = "2023-11-14T22:13:20Z"
MADE = datetime(2023, 11, 14, 20, 0, 0, tzinfo=UTC)
DISK = Disk(at=AT, capacity=100, available=60, used=40, inodes=10, inodes_free=7, inodes_used=3)


def usage(rate: int | None = None) -> Usage:
    memory = Memory(usage=10, working_set=8, rss=5, page_faults=3, major_page_faults=1, limit=20, swap=2)
    return Usage(at=AT, cpu=Cpu(total=99, rate=rate), memory=memory, processes=4)


def reading() -> Reading:
    container = ContainerReading(
        id="1", name="c", image="busybox", group="/g", created_at=MADE, usage=usage(7), root=DISK, logs=DISK
    )
    pod = PodReading(
        uid="u",
        name="web",
        namespace="default",
        created_at=MADE,
        group="/p",
        usage=usage(),
        containers=(container,),
        interfaces=(Interface(name="eth0", rx_bytes=1, tx_bytes=2, rx_errors=3, tx_errors=4),),
        volumes=(
            VolumeUsage(name="cache", disk=DISK, is_ephemeral=True),
            VolumeUsage(name="data", disk=DISK, claim="pvc"),
        ),
        ephemeral=DISK,
    )
    sleeping = PodReading(uid="v", name="idle", namespace="default", created_at=MADE, group="", usage=Usage(at=AT))
    node = NodeReading(
        usage=usage(),
        booted=1_699_999_000.5,
        interfaces=(Interface(name="ens3", rx_bytes=5),),
        disk=DISK,
        images=DISK,
        max_pid=1000,
        tasks=50,
        system={"kubelet": GroupReading(group="/k", usage=usage(), started=1_699_999_100.0)},
    )
    return Reading(at=AT, node=node, pods=(pod, sleeping), has_details=True)


def test_a_pod_is_told_with_all_that_it_uses() -> None:
    told = summary(reading(), "n1")
    assert codec.decode_any(codec.encode(told)) == told
    (pod,) = told["pods"]  # one without a running container is not told about
    assert pod["podRef"] == {"name": "web", "namespace": "default", "uid": "u"}
    assert pod["startTime"] == "2023-11-14T20:00:00Z"
    (container,) = pod["containers"]
    assert container["cpu"] == {"time": TIME, "usageNanoCores": 7, "usageCoreNanoSeconds": 99}
    assert container["memory"] == {
        "time": TIME,
        "availableBytes": 12,
        "usageBytes": 10,
        "workingSetBytes": 8,
        "rssBytes": 5,
        "pageFaults": 3,
        "majorPageFaults": 1,
    }
    assert container["swap"] == {"time": TIME, "swapUsageBytes": 2}
    disk = {
        "time": TIME,
        "availableBytes": 60,
        "capacityBytes": 100,
        "usedBytes": 40,
        "inodesFree": 7,
        "inodes": 10,
        "inodesUsed": 3,
    }
    assert container["rootfs"] == container["logs"] == pod["ephemeral-storage"] == disk
    assert pod["cpu"] == {"time": TIME, "usageCoreNanoSeconds": 99}  # there is nothing to compare with yet
    interface = {"name": "eth0", "rxBytes": 1, "rxErrors": 3, "txBytes": 2, "txErrors": 4}
    assert pod["network"] == {"time": TIME, **interface, "interfaces": [interface]}
    assert pod["volume"] == [
        {**disk, "name": "cache"},
        {**disk, "name": "data", "pvcRef": {"name": "pvc", "namespace": "default"}},
    ]
    assert pod["process_stats"] == {"process_count": 4}


def test_the_node_is_told_with_its_disks_and_its_own_programs() -> None:
    node = summary(reading(), "n1")["node"]
    assert node["nodeName"] == "n1"
    assert node["startTime"] == "2023-11-14T21:56:40Z"
    assert node["rlimit"] == {"time": TIME, "maxpid": 1000, "curproc": 50}
    assert node["runtime"]["imageFs"] == node["runtime"]["containerFs"] == node["fs"]
    assert node["network"]["name"] == "ens3"
    (kubelet,) = node["systemContainers"]
    assert kubelet["name"] == "kubelet"
    assert kubelet["startTime"] == "2023-11-14T21:58:20Z"


def test_who_asks_for_processor_time_and_memory_alone_gets_no_more() -> None:
    told = summary(reading(), "n1", only_cpu_and_memory=True)
    assert set(told["node"]) == {"nodeName", "systemContainers", "startTime", "cpu", "memory", "swap"}
    (pod,) = told["pods"]
    assert set(pod) == {"podRef", "startTime", "containers", "cpu", "memory", "swap"}
    assert set(pod["containers"][0]) == {"name", "startTime", "cpu", "memory", "swap"}


def test_pressure_is_told_where_the_kernel_counts_it() -> None:
    pressure = Pressure(some=7, full=5, some_shares=(1.5, 0.5, 0.1))
    node = NodeReading(usage=Usage(at=AT, cpu=Cpu(pressure=pressure), io_pressure=pressure))
    told = summary(Reading(at=AT, node=node), "n1")["node"]
    shape = {
        "full": {"total": 5, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0},
        "some": {"total": 7, "avg10": 1.5, "avg60": 0.5, "avg300": 0.1},
    }
    assert told["cpu"]["psi"] == shape
    assert told["io"] == {"time": TIME, "psi": shape}
