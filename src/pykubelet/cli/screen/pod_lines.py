"""The pods of a node as one line each: from what the agent tells of itself (`NodeState`), filtered and in order."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from pykubelet.api.durations import span

Order = Literal["name", "status", "restarts", "cpu", "memory", "age"]
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class PodLine(Struct, frozen=True, kw_only=True):
    uid: str
    namespace: str
    name: str
    node: str = ""
    status: str = ""
    """One word, as kubectl has it."""
    is_well: bool = True
    sentence: str = ""
    ready: str = ""
    restarts: int = 0
    cpu: float | None = None
    """Cores."""
    memory: int | None = None
    cpu_limit: float | None = None
    memory_limit: int | None = None
    since: datetime | None = None
    containers: tuple[str, ...] = ()
    """Those that can be looked into, the ones that run first."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class NodeLine(Struct, frozen=True, kw_only=True):
    name: str
    is_ready: bool = False
    cpu: float | None = None
    memory: int | None = None
    cpus: float = 0.0
    capacity: int = 0
    troubles: tuple[str, ...] = ()


def node_line(state: Mapping[str, Any]) -> NodeLine:
    node, usage = state.get("node") or {}, (state.get("usage") or {}).get("") or {}
    trouble = node.get("trouble") or {}
    told = {"runtime": "its container runtime does not answer", "api": "it cannot reach the API server"}
    return NodeLine(
        name=node.get("name", ""),
        is_ready=bool(node.get("isReady")),
        cpu=usage.get("cpu"),
        memory=usage.get("memory"),
        cpus=node.get("cpus") or 0.0,
        capacity=node.get("memory") or 0,
        troubles=tuple(f"{text}: {trouble[name]}" for name, text in told.items() if trouble.get(name)),
    )


def pod_lines(state: Mapping[str, Any]) -> tuple[PodLine, ...]:
    node, usage = (state.get("node") or {}).get("name", ""), state.get("usage") or {}
    return tuple(_line(each, node, usage.get(each["uid"]) or {}) for each in state.get("pods") or ())


def _line(row: Mapping[str, Any], node: str, usage: Mapping[str, Any]) -> PodLine:
    return PodLine(
        uid=row["uid"],
        namespace=row["namespace"],
        name=row["name"],
        node=node,
        status=row.get("reason") or row.get("phase") or "",
        is_well=bool(row.get("isWell", True)),
        sentence=row.get("sentence", ""),
        ready=f"{row.get('ready', 0)}/{row.get('total', 0)}",
        restarts=row.get("restarts", 0),
        cpu=usage.get("cpu"),
        memory=usage.get("memory"),
        cpu_limit=row.get("cpuLimit"),
        memory_limit=row.get("memoryLimit"),
        since=read_time(row.get("startedAt") or row.get("createdAt")),
        containers=_containers(row.get("containers") or ()),
    )


def _containers(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What runs before what does not, and what a pod is for before what prepares or helps it."""
    kinds, states = ("container", "sidecar", "ephemeral", "init"), ("running", "waiting", "terminated")

    def rank(row: Mapping[str, Any]) -> tuple[bool, int]:
        kind = row.get("kind", "container")
        return row.get("state") != states[0], kinds.index(kind) if kind in kinds else len(kinds)

    return tuple(each["name"] for each in sorted(rows, key=rank))


def read_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


# --- which, and in what order

_KEYS: Final[Mapping[Order, Callable[[PodLine], Any]]] = {
    "name": lambda line: line.key,
    "status": lambda line: (line.is_well, line.status),
    "restarts": lambda line: -line.restarts,
    "cpu": lambda line: -(line.cpu or 0.0),
    "memory": lambda line: -(line.memory or 0),
    "age": lambda line: (line.since is None, -line.since.timestamp() if line.since else 0.0),
}


def chosen(
    lines: Iterable[PodLine], *, namespace: str = "", words: str = "", order: Order = "name", backwards: bool = False
) -> tuple[PodLine, ...]:
    """`words`: all of them have to be somewhere in the line; the youngest, the hungriest and the unwell come first."""
    wanted = words.lower().split()
    found = [
        each
        for each in lines
        if namespace in ("", each.namespace)
        and all(word in f"{each.namespace}/{each.name} {each.node} {each.status}".lower() for word in wanted)
    ]
    found.sort(key=lambda line: line.key)
    return tuple(sorted(found, key=_KEYS[order], reverse=backwards))


# --- in a few characters


def cores(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{round(value * 1000)}m" if value < 10 else f"{value:.1f}"


def size(value: int | None) -> str:
    if value is None:
        return "-"
    number, unit = float(value), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f}{_UNITS[unit]}" if unit and number < 10 else f"{number:.0f}{_UNITS[unit]}"


def age(since: datetime | None, now: datetime) -> str:
    return span(max(0.0, (now - since).total_seconds())) if since else "-"
