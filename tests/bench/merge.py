"""From a line of a watch to the delivered update: one changed pod on a node with n pods."""

import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import API_SOURCE
from pykubelet.kube.client import slim
from pykubelet.kube.watch import WatchLine
from pykubelet.node.messages import Said
from pykubelet.node.pod_config import PodConfig
from pykubelet.pod.lifecycle.pod_update import Applied, Listed, Op
from pykubelet.pod.moments import Journal

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 2_000
GOAL = 60.0
FLAT = 1.5
GO_MERGE = {10: 84.0, 100: 628.0, 1_000: 7_800.0}
"""Microseconds of the Go kubelet's merge alone, which takes the whole list for every event."""


def run() -> None:
    _table(Op.UPDATE, "whose annotation changed")
    _table(Op.RECONCILE, "whose status changed: all else has to be compared to see that")
    _throughput()
    _memory()


def _table(op: Op, what: str) -> None:
    print(f"merge: one pod on a node with n pods, {what} (microseconds, median)")
    print("release is the freeing of the pod's former state, which is cold memory on a node with many pods\n")
    print(
        f"{'n':>7} {'decode':>8} {'merge':>8} {'deliver':>8} {'release':>8} {'total':>8}   {'Go merge':>9} {'ratio':>7}"
    )
    costs: dict[int, list[float]] = {}
    for size in SIZES:
        costs[size] = steps = _one_size(size, op)
        go = GO_MERGE.get(size)
        compared = f"{go:>9,.0f} {go / steps[1]:>6.0f}x" if go else ""
        print(f"{size:>7,} " + " ".join(f"{cost:>8.1f}" for cost in (*steps, sum(steps))) + f"   {compared}")
    few, many = costs[SIZES[0]], costs[SIZES[-1]]
    print()
    _goal("most in merge", max(steps[1] for steps in costs.values()), GOAL, "us")
    _goal(f"merge, n = {SIZES[-1]:,} against n = {SIZES[0]}", many[1] / few[1], FLAT, "x")
    _goal(f"total, n = {SIZES[-1]:,} against n = {SIZES[0]}", sum(many) / sum(few), FLAT, "x")
    print()


def _goal(what: str, measured: float, most: float, unit: str) -> None:
    print(f"{what}: {measured:.2f} {unit} (goal: at most {most:g}): {'met' if measured <= most else 'MISSED'}")


def _one_size(size: int, op: Op) -> list[float]:
    """Decode, merge, deliver, release."""
    pods = PodConfig({}, Journal())
    first = tuple(slim(codec.decode(Pod, _pod_json(number, 0, op))) for number in range(size))
    pods.handle(Said(API_SOURCE, Listed(first)))
    del first
    gc.collect()
    gc.freeze()
    queue: asyncio.Queue[object] = asyncio.Queue()
    clock = time.perf_counter_ns
    times: list[tuple[int, ...]] = []
    for number in range(ROUNDS):
        line = _line(number % size, number + 1, op)
        former = pods.merge.pods(API_SOURCE)[f"00000000-0000-0000-0000-0000{number % size}"]
        start = clock()
        pod = slim(codec.decode(Pod, codec.decode(WatchLine, line).object))
        decoded = clock()
        updates = pods.handle(Said(API_SOURCE, Applied(pod)))
        merged = clock()
        for update in updates:
            queue.put_nowait(update)
            queue.get_nowait()
        delivered = clock()
        del former
        released = clock()
        assert updates[0].op is op
        times.append((decoded - start, merged - decoded, delivered - merged, released - delivered))
    gc.unfreeze()
    return [statistics.median(step) / 1000 for step in zip(*times, strict=True)]


def _throughput() -> None:
    lines = [_line(number, 1) for number in range(2_000)]
    seconds = _cpu(lambda: [slim(codec.decode(Pod, codec.decode(WatchLine, line).object)) for line in lines])
    size = sum(map(len, lines)) / len(lines)
    print(f"decode: {len(lines) / seconds:,.0f} watch events per CPU second, {size:,.0f} bytes each")


def _memory() -> None:
    count = 10_000
    texts = [_pod_json(number, 0) for number in range(count)]
    gc.collect()
    before = _resident()
    pods = PodConfig({}, Journal(pods=count))
    pods.handle(Said(API_SOURCE, Listed(tuple(slim(codec.decode(Pod, text)) for text in texts))))
    gc.collect()
    held = (_resident() - before) / count
    print(f"memory: {held / 1024:.1f} KiB per pod held, of {len(texts[0]) / 1024:.1f} KiB of JSON each\n")


def _line(number: int, change: int, op: Op = Op.UPDATE) -> bytes:
    return b'{"type":"MODIFIED","object":' + _pod_json(number, change, op) + b"}"


def _pod_json(number: int, change: int, op: Op = Op.UPDATE) -> bytes:
    """A pod as a cluster has them: 7 KB, with probes, volumes, a full status and its field managers."""
    text = _TEMPLATE.replace("NUMBER", str(number)).replace('"CHANGE"', f'"{change}"')
    text = text.replace("SPOKEN" if op is Op.UPDATE else "REPORTED", str(change))
    return text.encode()


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


_TEMPLATE = json.dumps(json.loads((Path(__file__).parent / "pod.json").read_text()), separators=(",", ":"))
