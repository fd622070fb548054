"""The whole agent on a runtime in memory: what it adds to the cost of a pod."""

import asyncio
import gc
import time

from kit.node import EPOCH, World
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.status.pod_status import pod_status

PODS = 500


def run() -> None:
    print(f"agent: {PODS} pods on one node, runtime in memory")
    asyncio.run(_agent())
    _statuses()
    print()


def _goal(what: str, measured: str, met: bool) -> None:
    print(f"{what}: {measured}: {'met' if met else 'MISSED'}")


async def _agent() -> None:
    world = World()
    async with world.agent() as node:
        pods = [_pod(number) for number in range(PODS)]
        await asyncio.sleep(0.2)
        gc.collect()
        gc.freeze()  # as the agent itself does once it is built
        late = asyncio.create_task(_lateness())
        started, cpu = time.perf_counter(), time.process_time()
        for pod in pods:
            world.pods.apply(pod)
        await eventually(lambda: all(node.phase(f"uid-p{number}") == "Running" for number in range(PODS)))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        late.cancel()
        lateness = sorted(await late)
        rate = PODS / seconds
        _goal("from added to Running reported", f"{rate:,.0f} pods/s (goal: at least 500)", rate >= 500)
        print(f"  {cpu / PODS * 1000:.2f} ms CPU a pod")
        p99 = lateness[int(len(lateness) * 0.99)] * 1000
        _goal("loop latency p99 meanwhile", f"{p99:.1f} ms (goal: under 5)", p99 < 5)
        await asyncio.sleep(2)
        cpu = time.process_time()
        await asyncio.sleep(10)
        share = (time.process_time() - cpu) / 10 * 100
        _goal(f"idle with {PODS} pods", f"{share:.2f} % of a core (goal: under 2)", share < 2)


async def _lateness() -> list[float]:
    """How late the loop serves a timer, again and again."""
    measured: list[float] = []
    try:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            measured.append(time.perf_counter() - began - 0.002)
    except asyncio.CancelledError:
        return measured


def _statuses() -> None:
    pod = _pod(1)
    observed = ObservedPod(
        uid="uid-p1",
        sandboxes=(ObservedSandbox(id="s", ready=True, ips=("10.0.0.1",)),),
        containers=(ObservedContainer(id="c1", name="c", state=State.RUNNING, sandbox_id="s"),),
    )
    count = 20_000
    began = time.process_time()
    for _ in range(count):
        pod_status(pod, observed, PodStatus(), now=EPOCH)
    rate = count / (time.process_time() - began)
    _goal("pod_status", f"{rate:,.0f} a second (goal: at least 10,000)", rate >= 10_000)


def _pod(number: int) -> Pod:
    made = make_pod(f"p{number}")
    return changed(made, spec=changed(made.spec, restart_policy="Always"))
