"""What a scrape costs: 100 pods of two containers on made-up control groups, from the runtime's answer to the text; and
a few pods on a real containerd, with all that is asked of it."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kit.containerd import Containerd, containerd_for_tests, missing
from kit.cri import CriOutside, cleared
from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats import StatsReader, StatsSettings
from pykubelet.node.eviction import PERIOD as EVICTION_PERIOD
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.eviction.thresholds import observations
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import ContainerConfig
from pykubelet.pod.stats.stats import Reading
from pykubelet.pod.stats.summary import summary
from pykubelet.runtime.cri.stats import CriPlaces
from pykubelet.server.metrics import cadvisor, resource_metrics
from pykubelet.web.grpc_channel import Channel
from unit.host.stats.trees import Clock, FakeMachine, reader_of

PODS = 100
REAL_PODS = 10
ROUNDS = 15
GOAL = 100.0
LOOK_GOAL = 0.5
_FACTS = MachineFacts(hostname="n1", ips=("127.0.0.1",), cpus=2, memory=1 << 30)


def run() -> None:
    print(f"stats: a scrape of {PODS} pods with two containers and a sandbox each, made-up files (ms of CPU, median)\n")
    print("read: everything; brief: processor time and memory; the others: to write the answer from a reading\n")
    print(f"{'':>10} {'read':>8} {'brief':>8} {'cadvisor':>9} {'summary':>8} {'resource':>9} {'KiB cadvisor':>13}")
    for unified in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_one(Path(folder), unified))
    print()
    if why := missing():
        print(f"stats: nothing on a real containerd: {why}\n")
        return
    with containerd_for_tests() as containerd, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_real(containerd, Path(folder)))


async def _one(root: Path, unified: bool) -> None:
    machine, clock = FakeMachine(root, unified=unified), Clock()
    pods = {number: machine.pod(f"web-{number}", number, ("app", "side")) for number in range(1000, 1000 + PODS * 3, 3)}
    reader = reader_of(machine, pods, clock)
    whole: list[float] = []
    light: list[float] = []
    looks: list[float] = []
    reading = await reader.read()
    for _ in range(ROUNDS):
        clock.ns += 1_000_000_000
        began = time.process_time()
        reading = await reader.read()
        whole.append(time.process_time() - began)
        began = time.process_time()
        await reader.read(details=False)
        light.append(time.process_time() - began)
        began = time.process_time()
        observations(await reader.node())
        looks.append(time.process_time() - began)
    choosing = time.process_time()
    assert len(await reader.pods(files=True)) == PODS
    choosing = time.process_time() - choosing
    await reader.close()
    shown = _median(lambda: cadvisor.exposition(reading, _FACTS))
    told = _median(lambda: codec.encode(summary(reading, "n1")))
    short = _median(lambda: resource_metrics.exposition(reading))
    read = statistics.median(whole) * 1000
    size = len(cadvisor.exposition(reading, _FACTS)) / 1024
    print(
        f"{'version 2' if unified else 'version 1':>10} {read:>8.1f} {statistics.median(light) * 1000:>8.1f}"
        f" {shown:>9.1f} {told:>8.1f} {short:>9.1f} {size:>13.0f}"
    )
    for name, cost in (("/metrics/cadvisor", read + shown), ("/stats/summary", read + told)):
        print(f"{name}: {cost:.0f} ms of CPU (goal: at most {GOAL:g}): {'met' if cost <= GOAL else 'MISSED'}")
    share = statistics.median(looks) / EVICTION_PERIOD * 100
    verdict = "met" if share <= LOOK_GOAL else "MISSED"
    print(f"a look at what the node has left: {share:.4f} % of a core (goal: at most {LOOK_GOAL:g}): {verdict}")
    print(f"to choose who has to go: {choosing * 1000:.0f} ms of CPU")
    _check(reading)


async def _real(containerd: Containerd, root: Path) -> None:
    runtime, channel = CriOutside(containerd).runtime, Channel(containerd.endpoint)
    try:
        for number in range(REAL_PODS):
            pod = make_pod(f"web-{number}")
            sandbox = sandbox_config(pod, 0, log_root=str(root / "logs"))
            sandbox_id, container = (await runtime.run_sandbox(sandbox)).id, pod.spec.containers[0]
            config = ContainerConfig(
                name=container.name,
                image="busybox:1.36",
                command=("sleep", "1000"),
                labels=container_labels(pod, container),
                annotations=container_annotations(pod, container, 0),
                log_path="c/0.log",
                sandbox=sandbox,
            )
            await runtime.start_container(await runtime.create_container(sandbox_id, config))
        settings = StatsSettings(fresh=0.0)
        reader = StatsReader(runtime.pods, CriPlaces(channel), PodDirs(str(root)), settings=settings)
        print(f"stats: {REAL_PODS} pods on a real containerd (ms that pass, and ms of CPU of the agent)\n")
        for what, details in (("first", True), ("again", True), ("again", True), ("brief", False), ("brief", False)):
            began, used = time.perf_counter(), time.process_time()
            assert len((await reader.read(details=details)).pods) == REAL_PODS
            passed, used = time.perf_counter() - began, time.process_time() - used
            print(f"{what:>10} {passed * 1000:>8.1f} {used * 1000:>8.1f}")
        await reader.close()
    finally:
        await channel.close()
        await cleared(runtime)
    print()


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times) * 1000


def _check(reading: Reading) -> None:
    assert len(reading.pods) == PODS
    assert all(len(pod.containers) == 2 and pod.usage.cpu for pod in reading.pods)


if __name__ == "__main__":
    run()
