"""A node object on a server in memory, and a runtime that says what it is told to say."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pykubelet.api import codec
from pykubelet.api.node import Node, NodeCondition
from pykubelet.api.struct import changed
from pykubelet.base.errors import Conflict, NotFound, Retry
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Image, RuntimeStatus, RuntimeVersion

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACTS = MachineFacts(
    hostname="n1", ips=("10.0.0.1",), cpus=4, memory=1 << 34, storage=1 << 36, architecture="amd64", boot_id="b1"
)


def clock() -> float:
    return asyncio.get_running_loop().time()


class MemoryNodes:
    """A NodeApi in memory. `faults` spoil the next calls, `away` all of them; a LOST answer is that of a call which was
    carried out."""

    LOST = Retry("the answer is lost")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.calls: list[tuple[str, float]] = []
        self.patches: list[Mapping[str, Any]] = []
        self.faults: deque[Exception | None] = deque()
        self.away: Exception | None = None
        self.keeps_status_on_create = True
        self._made = 0

    def put(self, node: Node) -> Node:
        self._made += 1
        uid = node.metadata.uid or f"u{self._made}"
        meta = changed(node.metadata, uid=uid, resource_version=str(self._made))
        self.node = changed(node, metadata=meta)
        return self.node

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]

    def condition(self, type: str) -> NodeCondition:
        assert self.node is not None
        return next(each for each in self.node.status.conditions if each.type == type)

    def volumes_in_use(self) -> tuple[str, ...]:
        assert self.node is not None
        return self.node.status.volumes_in_use

    async def get(self, name: str) -> Node:
        return await self._call("get", self._found)

    async def create(self, node: Node) -> Node:
        def create() -> Node:
            if self.node is not None:
                raise Conflict("it exists")
            return self.put(node if self.keeps_status_on_create else Node(metadata=node.metadata))

        return await self._call("create", create)

    async def patch(self, name: str, patch: Mapping[str, Any]) -> Node:
        assert "status" not in patch
        return await self._call("patch", lambda: self._patched(patch))

    async def patch_status(self, name: str, patch: Mapping[str, Any]) -> Node:
        assert set(patch) == {"status"}
        return await self._call("patch_status", lambda: self._patched(patch))

    def _patched(self, patch: Mapping[str, Any]) -> Node:
        self.patches.append(patch)
        return self.put(codec.convert(Node, merged(codec.to_builtins(self._found()), codec.to_builtins(patch))))

    def _found(self) -> Node:
        if self.node is None:
            raise NotFound("there is no node n1")
        return self.node

    async def _call(self, verb: str, work: Callable[[], Node]) -> Node:
        self.calls.append((verb, clock()))
        await asyncio.sleep(0.001)
        fault = self.faults.popleft() if self.faults else self.away
        if fault is not None and fault is not self.LOST:
            raise fault
        answer = work()
        if fault is self.LOST:
            raise fault
        return answer


def merged(value: Any, patch: Any) -> Any:
    """A strategic merge, as far as nodes need it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value or {})
    for field, change in patch.items():
        if change is None:
            result.pop(field, None)
        elif isinstance(change, list) and {"$patch": "replace"} in change:
            result[field] = [item for item in change if item != {"$patch": "replace"}]
        elif field == "conditions":
            items = {item["type"]: item for item in result.get(field, ())}
            items |= {item["type"]: merged(items.get(item["type"]), item) for item in change}
            result[field] = list(items.values())
        else:
            result[field] = merged(result.get(field), change)
    return result


class Runtime:
    def __init__(self) -> None:
        self.said = RuntimeStatus(ready=True, network_ready=True)
        self.fault: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.image_fault: Exception | None = None
        self.pulled: tuple[Image, ...] = ()

    async def version(self) -> RuntimeVersion:
        return RuntimeVersion(name="fake", version="1")

    async def status(self) -> RuntimeStatus:
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        return self.said

    async def images(self) -> tuple[Image, ...]:
        if self.image_fault is not None:
            raise self.image_fault
        return self.pulled
