"""The real agent on a real containerd, seen through an API server: how long pods take, and what the agent itself costs.

The numbers of the Go kubelet are not made here: they were measured before, with v1.34 on the same containerd and the
same kind of machine, through an API server too. Neighbours that use the machine slow the runtime down more than the
agent: on a busy machine compare the rows that leave CRI out, and those of the agent's CPU.
"""

import asyncio
import math
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from bench.measured_agent import NODE, MeasuredAgent, measured_agent
from bench.timed_api import Object, TimedApi, is_gone, is_ready, timed_api
from kit.containerd import Containerd, missing, private_containerd
from kit.cri_proxy import Call, CriProxy, Kind, cri_proxy

IMAGE: Final = "docker.io/library/busybox:1.36"
SINGLE: Final = 20
FOLLOWED: Final = 10
BURSTS: Final = {30: 5.6, 50: 10.3}
"""How many pods at once, the most at last, and the seconds that they take with the Go kubelet."""
LEAVING: Final = 15
IDLE_SECONDS: Final = 20.0
_SETTLING: Final = 12.0
"""Longer than any pause between two looks at everything: what has to be learned is learned."""
_PATIENCE: Final = 120.0
_GO_START: Final = (34, 51)
_GO_IDLE: Final = (6.2,)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    ours: float
    unit: str
    goal: float | None
    go: tuple[float, ...] = ()
    """One number, or the lowest and the highest that were measured: the ratio is that to the lowest."""

    def __str__(self) -> str:
        goal = f"{self.goal:g}" if self.goal is not None else "-"
        go = "-".join(f"{each:g}" for each in self.go) or "-"
        ratio = f"{self.go[0] / self.ours:.1f}x" if self.go and self.ours else "-"
        verdict = "" if self.goal is None else "met" if self.ours <= self.goal else "MISSED"
        return f"{self.what:<46} {self.ours:>8.3g} {self.unit:<6} {goal:>6} {go:>9} {ratio:>6}  {verdict}"


def run() -> None:
    if lacking := missing():
        print(f"cri: needs a real containerd: {lacking}\n")
        return
    busy = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"cri: the agent as its own process on a private containerd, seen through an API server; load {busy}")
    with private_containerd() as containerd:
        asyncio.run(_measured(containerd))


async def _measured(containerd: Containerd) -> None:
    folder = containerd.root / "agent"
    async with _node(containerd, folder / "followed", proxied=True) as node:
        await node.started(["warm"])
        await node.stopped(["warm"])
        rows = await _followed(node)
    async with _node(containerd, folder / "kept") as node:
        await node.started(["warm"])
        rows += [*await _one_at_a_time(node), *await _bursts(node)]
        rows += await _idle(node, "idle", 2.0)
        objects = node.server
    async with _node(containerd, folder / "kept", proxied=True, server=objects) as node:
        rows += await _idle(node, "idle, no events", 4.0)
    _print_rows(rows)


class Node:
    def __init__(self, server: TimedApi, agent: MeasuredAgent, proxy: CriProxy | None) -> None:
        self.server = server
        self.agent = agent
        self.proxy = proxy

    async def started(self, names: Sequence[str]) -> dict[str, float]:
        """Ask for pods all at once. -> the seconds until each was Ready"""
        with self.server.noted(is_ready) as times:
            began = time.perf_counter()
            for name in names:
                await self.server.apply(_pod(name))
            await self.until(lambda: times.keys() >= set(names), f"{len(names)} pods to be Ready")
        return {name: times[name] - began for name in names}

    async def stopped(self, names: Sequence[str]) -> dict[str, float]:
        """Delete pods all at once. -> the seconds until each was gone"""
        with self.server.noted(is_gone) as times:
            began = time.perf_counter()
            for name in names:
                await self.server.ask_to_delete(name, 1)
            await self.until(lambda: times.keys() >= set(names), f"{len(names)} pods to be gone")
        uids = [f"uid-{name}" for name in names]
        await self.until(lambda: not any(map(self.agent.keeps, uids)), f"nothing to be left of {len(names)} pods")
        return {name: times[name] - began for name in names}

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            self.agent.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {_PATIENCE:g} s in vain for {what}")
            await asyncio.sleep(0.005)

    async def quiet(self) -> None:
        """Until nothing more has been said for a second: events and statuses follow what they are about."""
        before = -1
        while before != (before := len(self.server.requests)):  # noqa: ASYNC110
            await asyncio.sleep(1.0)


@asynccontextmanager
async def _node(
    containerd: Containerd, folder: Path, *, proxied: bool = False, server: TimedApi | None = None
) -> AsyncIterator[Node]:
    """An agent that is registered. Its server may know the pods that an earlier agent has left."""
    async with timed_api(server) as api:
        if not proxied:
            async with measured_agent(folder, api.url, containerd.endpoint) as agent:
                node = Node(api, agent, None)
                await node.until(lambda: api.is_watched("pods"), "the agent to ask for its pods")
                yield node
            return
        socket = containerd.root / "proxy.sock"
        async with (
            _proxy_without_events(containerd.endpoint, socket) as proxy,
            measured_agent(folder, api.url, proxy.endpoint) as agent,
        ):
            node = Node(api, agent, proxy)
            await node.until(lambda: api.is_watched("pods"), "the agent to ask for its pods")
            yield node


@asynccontextmanager
async def _proxy_without_events(endpoint: str, socket: Path) -> AsyncIterator[CriProxy]:
    """As a runtime without such a stream would be."""
    async with cri_proxy(endpoint, socket, has_line=False) as proxy:
        for method in ("Subscribe", "GetContainerEvents"):
            proxy.spoil(method, Kind.BEFORE, left=None, code=grpc.StatusCode.UNIMPLEMENTED)
        yield proxy


# --- measurements


async def _one_at_a_time(node: Node) -> list[Row]:
    await node.quiet()
    cpu = node.agent.cpu()
    seconds: list[float] = []
    for number in range(SINGLE):
        seconds += (await node.started([f"single-{number}"])).values()
    await node.quiet()
    cpu = node.agent.cpu() - cpu
    await node.stopped(node.server.names("pods"))
    return [
        Row(f"one at a time, create to Ready, p50 of {SINGLE}", statistics.median(seconds), "s", 0.35, (1.0,)),
        Row("one at a time, create to Ready, p99", _percentile(seconds, 0.99), "s", None, (1.04, 1.5)),
        Row("one at a time, CPU of the agent per pod", cpu / SINGLE * 1000, "ms", 40, _GO_START),
    ]


async def _bursts(node: Node) -> list[Row]:
    """The pods of the last burst stay."""
    rows = []
    for size, go_seconds in BURSTS.items():
        await node.quiet()
        names = [f"burst{size}-{number}" for number in range(size)]
        cpu = node.agent.cpu()
        ready = (await node.started(names)).values()
        seconds = max(ready)
        share = (node.agent.cpu() - cpu) / seconds * 100
        await node.quiet()
        cpu = node.agent.cpu() - cpu
        rows += [
            Row(f"burst of {size}, create to the last Ready", seconds, "s", None, (go_seconds,)),
            Row(f"burst of {size}, create to Ready, p50", statistics.median(ready), "s", None),
            Row(f"burst of {size}, agent meanwhile", share, "% core", 50),
            Row(f"burst of {size}, CPU of the agent per pod", cpu / size * 1000, "ms", 40, _GO_START),
        ]
        if size != max(BURSTS):
            rows += await _leaving(node, names)
    return rows


async def _leaving(node: Node, names: Sequence[str]) -> list[Row]:
    cpu, seconds = node.agent.cpu(), list((await node.stopped(names[:LEAVING])).values())
    await node.stopped(names[LEAVING:])
    await node.quiet()
    cpu = node.agent.cpu() - cpu
    return [
        Row(f"{LEAVING} deleted at once, until gone, p50", statistics.median(seconds), "s", None, (2.0,)),
        Row("CPU of the agent per pod stopped", cpu / len(names) * 1000, "ms", 25, (24, 33)),
    ]


async def _idle(node: Node, what: str, goal: float) -> list[Row]:
    await asyncio.sleep(_SETTLING)
    count, began, cpu = len(node.server.names("pods")), time.perf_counter(), node.agent.cpu()
    await asyncio.sleep(IDLE_SECONDS)
    share = (node.agent.cpu() - cpu) / (time.perf_counter() - began) * 100
    return [
        Row(f"{what} with {count} pods, CPU", share, "% core", goal, _GO_IDLE),
        Row(f"{what} with {count} pods, RSS", node.agent.rss(), "MiB", 110, (119,)),
    ]


# --- one pod's path

Steps = tuple[tuple[str, str], ...]
"""Each ends with the end of its call; the first with the first call of all, the last with the word to the server."""

_START: Final[Steps] = (
    ("watched, admitted", ""),
    ("sandbox", "RunPodSandbox"),
    ("image", "ImageStatus"),
    ("created", "CreateContainer"),
    ("started", "StartContainer"),
    ("ready", ""),
)
_STOP: Final[Steps] = (
    ("watched", ""),
    ("container stopped", "StopContainer"),
    ("sandbox stopped", "StopPodSandbox"),
    ("gone", ""),
)


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    cri: float
    total: float
    calls: int


async def _followed(node: Node) -> list[Row]:
    """Pods one at a time through the proxy: where their time goes."""
    assert node.proxy is not None
    await node.quiet()
    starts: list[list[Step]] = []
    stops: list[list[Step]] = []
    for number in range(FOLLOWED):
        name = f"followed-{number}"
        marks = f"uid-{name}", IMAGE
        for what, steps, paths in ((node.started, _START, starts), (node.stopped, _STOP, stops)):
            await asyncio.sleep(0.2)  # the word on the last step has its own effects
            began = time.perf_counter()
            end = began + (await what([name]))[name]
            paths.append(_path(steps, _calls_about(node.proxy, marks), began, end))
    _print_path("one pod's start", starts)
    _print_path("one pod's end", stops)
    rows = []
    for name, paths in (("create to Ready", starts), ("delete to gone", stops)):
        own = statistics.median(sum(step.total - step.cri for step in path) * 1000 for path in paths)
        rows.append(Row(f"one at a time, {name}, all but CRI", own, "ms", None))
    return rows


def _calls_about(proxy: CriProxy, marks: tuple[str, ...]) -> list[Call]:
    """Those that were answered, in their order."""
    return [call for call in proxy.calls if call.ended and any(mark in call.about for mark in marks)]


def _path(steps: Steps, calls: list[Call], began: float, last: float) -> list[Step]:
    calls = [call for call in calls if began <= call.began < last]
    ends = {call.method: call.ended for call in reversed(calls)}  # the first of each method counts
    path: list[Step] = []
    at = began
    for name, method in steps:
        end = ends.get(method, at) if method else last if path else calls[0].began
        inside = [(max(call.began, at), min(call.ended, end)) for call in calls if call.began < end and call.ended > at]
        begun = sum(at <= call.began < end for call in calls)
        path.append(Step(name, _covered(inside), end - at, begun))
        at = end
    return path


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of them was going on."""
    total, until = 0.0, -math.inf
    for began, ended in sorted(spans):
        total += max(ended - max(began, until), 0.0)
        until = max(until, ended)
    return total


def _print_path(what: str, paths: list[list[Step]]) -> None:
    print(f"\n{what}, one at a time, median of {len(paths)} (milliseconds; CRI: at least one call is under way)\n")
    print(f"{'until':<20} {'CRI':>8} {'agent':>8} {'total':>8} {'calls':>6}")
    sums = [0.0, 0.0, 0.0, 0.0]
    for each in zip(*paths, strict=True):
        cri, total, calls = (
            statistics.median(values)
            for values in ([s.cri * 1000 for s in each], [s.total * 1000 for s in each], [s.calls for s in each])
        )
        values = cri, total - cri, total, calls
        sums = [sum(pair) for pair in zip(sums, values, strict=True)]
        print(f"{each[0].name:<20} " + " ".join(f"{value:>8.1f}" for value in values[:3]) + f" {calls:>6.0f}")
    print(f"{'sum':<20} " + " ".join(f"{value:>8.1f}" for value in sums[:3]) + f" {sums[3]:>6.0f}")


def _print_rows(rows: Sequence[Row]) -> None:
    print(f"\n{'step':<46} {'ours':>8} {'':<6} {'goal':>6} {'Go':>9} {'ratio':>6}")
    for row in rows:
        print(row)
    print()


# --- small things


def _pod(name: str) -> Object:
    script = "trap exit TERM; sleep 1000000 & wait"
    container = {
        "name": "c",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "nodeName": NODE,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 1,
        "dnsPolicy": "Default",
        "securityContext": {},
        "enableServiceLinks": True,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(math.ceil(len(values) * part), len(values)) - 1]
