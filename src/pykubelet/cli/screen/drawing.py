"""What a view looks like: lines of styled text, exactly as many and as wide as there is room for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from pykubelet.cli.plain_text import fit, shown, width
from pykubelet.cli.screen.pod_lines import NodeLine, PodLine, age, cores, size
from pykubelet.cli.screen.view import Text, View, text_lines, title

Style = Literal["plain", "bold", "dim", "bad", "good", "chosen", "bar"]
SORTED: Final = {
    "name": "NAME",
    "status": "STATUS",
    "restarts": "RESTARTS",
    "cpu": "CPU",
    "memory": "MEMORY",
    "age": "AGE",
}
_COLUMNS: Final = ("NAMESPACE", "NAME", "NODE", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "AGE")
_NUMBERS: Final = ("RESTARTS", "CPU", "MEMORY", "AGE")
_FIRST_TO_GO: Final = ("NODE", "READY", "AGE", "NAMESPACE", "RESTARTS", "CPU", "MEMORY")
_LEAST_NAME: Final = 3
"""Of the name: at least this part of the whole width."""
_MOST_STATUS: Final = 28
_GAP: Final = "  "
_AROUND: Final = 5
"""Lines beside those of the list: two on top, the names of the columns, and two at the bottom."""
_AROUND_TEXT: Final = 2
_HINTS: Final = "enter why  l log  s shell  e events  d yaml  / find  n namespace  ? help  q quit"
_READING: Final = "q back  arrows, space, g, G move  l logs  e events  d yaml  s shell"


class Span(NamedTuple):
    text: str
    style: Style = "plain"


Line = tuple[Span, ...]


def room(view: View, height: int) -> int:
    """How many lines of the list, or of the text, are in sight."""
    return max(1, height - (_AROUND if view.text is None else _AROUND_TEXT))


def drawn(view: View, columns: int, height: int, now: datetime) -> list[Line]:
    lines = _list(view, columns, height, now) if view.text is None else _text(view.text, columns, height)
    blank: Line = (Span(" " * columns),)
    return (lines + [blank] * height)[:height]


# --- the list


def _list(view: View, columns: int, height: int, now: datetime) -> list[Line]:
    pods, space = view.shown, room(view, height)
    top = max(0, min(view.index - space // 2, len(pods) - space))
    cells = table_cells(pods, now, has_namespace=not view.namespace, has_node=len(view.nodes) > 1)
    names, widths = fitting(cells, columns)
    head: Line = (Span(fit(_row(cells[0], names, widths, mark=SORTED[view.order]), columns), "bold"),)
    rows: list[Line] = [
        (Span(fit(_row(cells[1 + top + at], names, widths), columns), _style(pod, view)),)
        for at, pod in enumerate(pods[top : top + space])
    ]
    if not pods:
        rows = [(Span(fit(_nothing(view), columns), "dim"),)]
    rows += [(Span(" " * columns),)] * (space - len(rows))
    return [
        _first(view, columns, now),
        _second(view, columns),
        head,
        *rows,
        _about(view, columns),
        _foot(view, columns),
    ]


def _style(pod: PodLine, view: View) -> Style:
    if pod.uid == view.selected:
        return "chosen"
    if view.complaint:
        return "dim"
    return "plain" if pod.is_well else "bad"


def _nothing(view: View) -> str:
    if not view.has_heard:
        return "Looking ..."
    return "No pod fits: escape shows all." if view.pods else "No pods here."


def _first(view: View, columns: int, now: datetime) -> Line:
    unwell = sum(not each.is_well for each in view.pods)
    how_many = f"{len(view.pods)} pods, {unwell} not well" if unwell else f"{len(view.pods)} pods"
    parts = [*map(_node, view.nodes[:1])] if len(view.nodes) < 2 else [f"{len(view.nodes)} nodes"]
    left, clock = "   ".join([*parts, how_many]), f"{now.astimezone():%H:%M:%S}"
    if width(shown(left)) + len(clock) + 1 > columns:
        return (Span(fit(left, columns), "bar"),)
    return (Span(fit(left, columns - len(clock)) + clock, "bar"),)


def _node(node: NodeLine) -> str:
    used = (
        f"   CPU {cores(node.cpu)}/{node.cpus:g}   memory {size(node.memory)}/{size(node.capacity)}"
        if node.cpus
        else ""
    )
    return f"{node.name} {'ready' if node.is_ready else 'NOT READY'}{used}"


def _second(view: View, columns: int) -> Line:
    """What is wrong, or else what is chosen."""
    troubles = [f"{node.name}: {each}" for node in view.nodes for each in node.troubles]
    if view.notice or view.complaint or troubles:
        return (Span(fit(view.notice or view.complaint or "; ".join(troubles), columns), "bad"),)
    if view.is_typing:
        return (Span(fit(f"/{view.words}█", columns), "bold"),)
    chosen = [f"namespace {view.namespace}"] if view.namespace else []
    chosen += [f"/{view.words}"] if view.words else []
    return (Span(fit("   ".join(chosen), columns), "dim"),)


def _about(view: View, columns: int) -> Line:
    pod = view.pod
    return (Span(fit(pod.sentence if pod else "", columns), "plain" if pod and pod.is_well else "bad"),)


def _foot(view: View, columns: int) -> Line:
    return (Span(fit("enter keeps it  escape drops it" if view.is_typing else _HINTS, columns), "bar"),)


# --- its columns


def table_cells(
    pods: Sequence[PodLine], now: datetime, *, has_namespace: bool = True, has_node: bool = False
) -> list[dict[str, str]]:
    """By column; the first are the columns' names."""
    wanted = [name for name in _COLUMNS if (has_namespace or name != "NAMESPACE") and (has_node or name != "NODE")]
    rows = [dict(zip(_COLUMNS, _values(pod, now), strict=True)) for pod in pods]
    return [{name: row[name] for name in wanted} for row in (dict(zip(_COLUMNS, _COLUMNS, strict=True)), *rows)]


def _values(pod: PodLine, now: datetime) -> tuple[str, ...]:
    return (
        pod.namespace, pod.name, pod.node, pod.ready, pod.status, str(pod.restarts), cores(pod.cpu), size(pod.memory),
        age(pod.since, now),
    )  # fmt: skip


def fitting(cells: Sequence[dict[str, str]], columns: int) -> tuple[list[str], dict[str, int]]:
    """Which columns there is room for, and how wide each is. The name gives way first, and never all of itself."""
    names = list(cells[0])
    widths = {name: max(width(shown(row[name])) for row in cells) for name in names}
    widths["STATUS"] = min(widths["STATUS"], _MOST_STATUS)
    whole = widths["NAME"]
    for name in (*_FIRST_TO_GO, ""):
        others = sum(widths[each] + len(_GAP) for each in names if each != "NAME")
        widths["NAME"] = min(whole, columns - others)
        if widths["NAME"] >= min(whole, columns // _LEAST_NAME) or not name:
            break
        names = [each for each in names if each != name]
    return names, {**widths, "NAME": max(1, widths["NAME"])}


def _row(row: dict[str, str], names: Sequence[str], widths: dict[str, int], mark: str = "") -> str:
    cells = []
    for name in names:
        text = row[name].lower() if mark and mark != name and row[name] == name else row[name]
        cells.append(fit(text, widths[name], right=name in _NUMBERS))
    return _GAP.join(cells)


def plain_table(pods: Sequence[PodLine], now: datetime, *, has_node: bool) -> str:
    """For a file or a pipe: as wide as it takes."""
    if not pods:
        return "No pods here."
    cells = table_cells(pods, now, has_node=has_node)
    names = list(cells[0])
    widths = {name: max(width(shown(row[name])) for row in cells) for name in names}
    return "\n".join(_row(row, names, widths).rstrip() for row in cells)


# --- a text


def _text(text: Text, columns: int, height: int) -> list[Line]:
    lines = text_lines(text, columns)
    space = max(1, height - _AROUND_TEXT)
    last = max(0, len(lines) - space)
    top = last if text.follows else min(text.offset, last)
    head = f"{title(text)}{f'   {text.complaint}' if text.complaint else ''}"
    body: list[Line] = [(Span(fit(each, columns)),) for each in lines[top : top + space]]
    body += [(Span(" " * columns),)] * (space - len(body))
    return [(Span(fit(head, columns), "bar"),), *body, (Span(fit(_READING, columns), "bar"),)]
