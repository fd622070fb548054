"""What `kubectl top` asks for: how much processor and memory nodes and containers use, as their kubelets count it.

Kubelets count the time that processors have worked, so a rate takes two looks. They are taken when somebody asks, and
the last one is kept for the next who does; nobody pays for numbers that nobody wants.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import list_options
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.verbs.handlers import Verb
from pykubelet.apiserver.verbs.selection import Facts, selection

GROUP: Final = "metrics.k8s.io"
_API_VERSION: Final = f"{GROUP}/v1beta1"
_TARGET: Final = "/metrics/resource"
_BETWEEN: Final = 1.0
"""Seconds from one look to the next when there was none before; a shorter time makes for a rough number."""
_PATIENCE: Final = 5.0
_KEPT: Final = 2
_OLD: Final = 60.0
"""A rate over more seconds than this says little about now."""
_LINE: Final = re.compile(r"(\w+)(?:\{([^}]*)\})? ([-+.\deE]+)(?: (\d+))?")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Scrape = Callable[[Backend, str, str], Awaitable[str]]
"""the objects, the name of a node, a path -> what its kubelet answers; raises ApiError"""
Who = tuple[str, str, str]
"""namespace, pod and container; all empty: the node itself"""
_NODE: Final[Who] = ("", "", "")


class Sample(Struct, frozen=True):
    """What one of them had used at a time, in seconds since 1970."""

    time: float
    cpu: float
    memory: float
    began: float = 0.0


class Usage(Struct, frozen=True):
    time: float
    window: float
    cores: float
    memory: float


Look = Mapping[Who, Sample]


class Metrics:
    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape
        self._looks: dict[str, list[Look]] = {}
        self._asking: dict[str, asyncio.Task[Mapping[Who, Usage]]] = {}

    def verbs(self) -> Mapping[tuple[str, str], Verb]:
        return {(GROUP, "nodes"): self.nodes, (GROUP, "pods"): self.pods}

    async def nodes(self, backend: Backend, call: Call) -> Answer:
        return await self._answer(backend, call, "nodes", self._of_nodes)

    async def pods(self, backend: Backend, call: Call) -> Answer:
        return await self._answer(backend, call, "pods", self.of_pods)

    async def _answer(
        self,
        backend: Backend,
        call: Call,
        plural: str,
        measured: Callable[[Backend, Iterable[Object]], Awaitable[list[Object]]],
    ) -> Answer:
        name, namespace = call.info.name, call.info.namespace
        if name:
            found = await backend.find("", plural, namespace, name)
            items = await measured(backend, [found]) if found else []
            if not items:
                kind = call.resource.kind.lower()
                raise status.not_found(kind, f"{namespace}/{name}" if namespace else name, GROUP)
            return Answer(200, items[0])
        strategy = backend.strategy(backend.resources.of("", plural))
        chosen = selection(strategy, list_options(call.query, call.info.verb))
        objects = [
            each
            for each in await backend.all("", plural, namespace)
            if chosen.chooses(Facts(at(each, "metadata.labels", {}), strategy.stored_fields(each)))
        ]
        items = await measured(backend, objects)
        head = {"kind": f"{call.resource.kind}List", "apiVersion": _API_VERSION, "metadata": {}}
        return Answer(200, {**head, "items": items})

    async def _of_nodes(self, backend: Backend, nodes: Iterable[Object]) -> list[Object]:
        listed = list(nodes)
        used = await self._ask(backend, {each["metadata"]["name"] for each in listed})
        return [
            _measured("NodeMetrics", each, usage, {"usage": _usage(usage)})
            for each in listed
            if (usage := used[each["metadata"]["name"]].get(_NODE)) is not None
        ]

    async def of_pods(self, backend: Backend, pods: Iterable[Object]) -> list[Object]:
        running = [each for each in pods if at(each, "status.phase") == "Running" and at(each, "spec.nodeName")]
        used = await self._ask(backend, {each["spec"]["nodeName"] for each in running})
        items = []
        for pod in running:
            own, metadata = used[pod["spec"]["nodeName"]], pod["metadata"]
            names = [each["name"] for part in ("initContainers", "containers") for each in pod["spec"].get(part) or ()]
            found = {name: own.get((metadata["namespace"], metadata["name"], name)) for name in names}
            containers = [{"name": name, "usage": _usage(usage)} for name, usage in found.items() if usage is not None]
            usages = [usage for usage in found.values() if usage is not None]
            if usages:
                items.append(_measured("PodMetrics", pod, usages[0], {"containers": containers}))
        return items

    async def _ask(self, backend: Backend, nodes: set[str]) -> dict[str, Mapping[Who, Usage]]:
        """A node whose kubelet does not answer is left empty: the others are still worth showing."""
        tasks = {}
        for node in nodes:
            task = self._asking.get(node)
            if task is None or task.done():
                task = self._asking[node] = asyncio.create_task(self._rates(backend, node), name=f"metrics of {node}")
                task.add_done_callback(_retrieved)
            tasks[node] = task
        # Others may wait for the same, and must not be cancelled with this request.
        answers = await asyncio.gather(*map(asyncio.shield, tasks.values()), return_exceptions=True)
        self._asking = {node: task for node, task in self._asking.items() if not task.done()}
        used: dict[str, Mapping[Who, Usage]] = {}
        for node, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, ApiError):
                    raise answer
                answer = {}
            used[node] = answer
        return used

    async def _rates(self, backend: Backend, node: str) -> Mapping[Who, Usage]:
        """A kubelet may answer with what it has found a moment ago, so the second look can be one too many."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            now = await self._look(backend, node)
            looks = [each for each in self._looks.get(node, ()) if _apart(each, now) <= _OLD]
            before = next((each for each in reversed(looks) if _apart(each, now) >= _BETWEEN), None)
            if not looks or _apart(looks[-1], now) >= _BETWEEN:
                looks.append(now)
            self._looks[node] = looks[-_KEPT:]
            if before is not None or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_BETWEEN)
        found = {who: usage((before or {}).get(who), sample) for who, sample in now.items()}
        return {who: each for who, each in found.items() if each is not None}

    async def _look(self, backend: Backend, node: str) -> Look:
        return read_samples(await self._scrape(backend, node, _TARGET), backend.now())


def _retrieved(task: "asyncio.Task[Mapping[Who, Usage]]") -> None:
    """Whoever has asked may be gone by now: then the failure is nobody's."""
    if not task.cancelled():
        task.exception()


def read_samples(text: str, now: datetime) -> Look:
    """From the text form of metrics. What has no time of its own is of `now`."""
    values: dict[Who, dict[str, tuple[float, float]]] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            continue
        scope, _, metric = found[1].partition("_")
        if scope not in ("node", "container"):
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        who = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""))
        if (who == _NODE) is not (scope == "node"):
            continue
        time = int(found[4]) / 1000 if found[4] else now.timestamp()
        values.setdefault(who, {})[metric] = (float(found[3]), time)
    samples = {}
    for who, each in values.items():
        if "cpu_usage_seconds_total" in each and "memory_working_set_bytes" in each:
            cpu, time = each["cpu_usage_seconds_total"]
            began = each.get("start_time_seconds", (0.0, 0.0))[0]
            samples[who] = Sample(time, cpu, each["memory_working_set_bytes"][0], began)
    return samples


def usage(before: Sample | None, now: Sample) -> Usage | None:
    """What was used from one look to the next. Who began in between, or began anew, is counted from there."""
    if before is None or before.cpu > now.cpu or before.began != now.began:
        before = Sample(now.began, 0.0, 0.0) if now.began else None
    if before is None or now.time <= before.time:
        return None
    window = now.time - before.time
    return Usage(now.time, window, (now.cpu - before.cpu) / window, now.memory)


def _apart(before: Look, now: Look) -> float:
    first, second = before.get(_NODE), now.get(_NODE)
    return second.time - first.time if first and second else 0.0


def _usage(used: Usage) -> dict[str, str]:
    return {"cpu": f"{round(used.cores * 1e9)}n", "memory": f"{round(used.memory / 1024)}Ki"}


def _measured(kind: str, source: Object, used: Usage, more: Object) -> Object:
    metadata = source["metadata"]
    stamp = rfc3339(datetime.fromtimestamp(used.time, UTC))
    own = {name: metadata[name] for name in ("name", "namespace", "labels") if metadata.get(name)}
    return {
        "kind": kind,
        "apiVersion": _API_VERSION,
        "metadata": {**own, "creationTimestamp": stamp},
        "timestamp": stamp,
        "window": f"{used.window:.3f}s",
        **more,
    }
