"""What somebody looks at, as a value, and what a key makes of it. Nothing here knows a terminal."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.cli.plain_text import wrapped
from pykubelet.cli.screen.pod_lines import NodeLine, Order, PodLine, chosen

Kind = Literal["explain", "logs", "events", "yaml", "help"]
MOST_LINES: Final = 2000
"""Of a log: older ones go."""


HELP: Final = """\
enter   why the pod does what it does, what comes next, and where the time went
l       its log, as it is written; c the next container, f follow or stay
s       a shell in its first container
e       events
d       the pod as it is, in YAML

/       only pods with these words in namespace, name, node or status; escape shows all
n       the next namespace
N S R C M A
        in the order of name, status, restarts, CPU, memory, age; once more turns it round

arrows, j, k, page up and down, g, G
        move
? or h  this
q       out"""


class Text(Struct, frozen=True, kw_only=True):
    """Something to read, in place of the list."""

    kind: Kind
    pod: PodLine | None = None
    container: str = ""
    lines: tuple[str, ...] = ()
    offset: int = 0
    """The line that is on top."""
    follows: bool = False
    """The last line is kept in sight."""
    complaint: str = ""


class View(Struct, frozen=True, kw_only=True):
    nodes: tuple[NodeLine, ...] = ()
    pods: tuple[PodLine, ...] = ()
    """All of them."""
    has_heard: bool = False
    complaint: str = ""
    """Why what is shown is old, or why there is nothing."""
    notice: str = ""
    """What did not work just now."""
    namespace: str = ""
    words: str = ""
    order: Order = "name"
    backwards: bool = False
    selected: str = ""
    """By uid."""
    index: int = 0
    """Where that one was: who comes after it takes its place when it goes."""
    is_typing: bool = False
    text: Text | None = None

    @property
    def shown(self) -> tuple[PodLine, ...]:
        return chosen(self.pods, namespace=self.namespace, words=self.words, order=self.order, backwards=self.backwards)

    @property
    def pod(self) -> PodLine | None:
        return next((each for each in self.shown if each.uid == self.selected), None)


# --- what the keys ask for


class Open(Struct, frozen=True):
    kind: Kind
    pod: PodLine
    container: str = ""


class Shell(Struct, frozen=True):
    pod: PodLine
    container: str


class Close(Struct, frozen=True):
    """Nobody reads the text any more."""


class Leave(Struct, frozen=True):
    pass


Action = Open | Shell | Close | Leave
_OPENS: Final[dict[str, Kind]] = {"enter": "explain", "l": "logs", "e": "events", "d": "yaml"}
_ORDERS: Final[dict[str, Order]] = {
    "N": "name", "S": "status", "R": "restarts", "C": "cpu", "M": "memory", "A": "age"
}  # fmt: skip


def pressed(view: View, key: str, columns: int, height: int) -> tuple[View, Action | None]:
    """`height`: lines of the list, or of the text, that are in sight."""
    view = replace(view, notice="") if view.notice else view
    if view.text is not None:
        return _while_reading(view, view.text, key, columns, height)
    if view.is_typing:
        return _while_typing(view, key), None
    return _in_list(view, key, height)


def replaced(view: View, **values: object) -> View:
    return replace(view, **values)


def settled(view: View) -> View:
    """With somebody selected who is there."""
    shown = view.shown
    for index, each in enumerate(shown):
        if each.uid == view.selected:
            return replace(view, index=index)
    if not shown:
        return replace(view, selected="", index=0)
    index = min(view.index, len(shown) - 1)
    return replace(view, index=index, selected=shown[index].uid)


def heard(view: View, nodes: Sequence[NodeLine], pods: Sequence[PodLine], complaint: str = "") -> View:
    """After news. Those who cannot be asked keep what was known of them."""
    return settled(replace(view, nodes=tuple(nodes), pods=tuple(pods), complaint=complaint, has_heard=True))


def reading(view: View, lines: Sequence[str], *, complaint: str = "") -> View:
    """The text has these lines now."""
    if view.text is None:
        return view
    return replace(view, text=replace(view.text, lines=tuple(lines[-MOST_LINES:]), complaint=complaint))


# --- the list


def _in_list(view: View, key: str, height: int) -> tuple[View, Action | None]:
    pod = view.pod
    if key in _OPENS and pod is not None:
        container = pod.containers[0] if pod.containers and key == "l" else ""
        return _opened(view, Open(_OPENS[key], pod, container))
    if key == "s" and pod is not None and pod.containers:
        return view, Shell(pod, pod.containers[0])
    if key in ("q", "Q"):
        return view, Leave()
    if key in ("?", "h"):
        return replace(view, text=Text(kind="help")), None
    return _moved(view, key, height), None


def _moved(view: View, key: str, height: int) -> View:
    if key in _ORDERS:
        order = _ORDERS[key]
        return settled(replace(view, order=order, backwards=order == view.order and not view.backwards))
    match key:
        case "/":
            return replace(view, is_typing=True)
        case "escape":
            return settled(replace(view, words="", namespace=""))
        case "n":
            return settled(replace(view, namespace=_next(("", *sorted({each.namespace for each in view.pods})), view)))
        case _:
            place = _place(view.index, key, height, len(view.shown))
            return settled(replace(view, index=place, selected="")) if place != view.index else view


def _next(namespaces: tuple[str, ...], view: View) -> str:
    at = namespaces.index(view.namespace) if view.namespace in namespaces else 0
    return namespaces[(at + 1) % len(namespaces)]


def _place(at: int, key: str, height: int, total: int) -> int:
    steps = {
        "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -height, "pagedown": height, " ": height,
        "home": -total, "g": -total, "end": total, "G": total,
    }  # fmt: skip
    return max(0, min(at + steps.get(key, 0), total - 1))


def _while_typing(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, is_typing=False)
        case "escape":
            return settled(replace(view, is_typing=False, words=""))
        case "backspace":
            return settled(replace(view, words=view.words[:-1]))
        case _ if len(key) == 1 and key.isprintable():
            return settled(replace(view, words=view.words + key))
        case _:
            return view


# --- a text


def _opened(view: View, what: Open) -> tuple[View, Action]:
    text = Text(kind=what.kind, pod=what.pod, container=what.container, follows=what.kind == "logs")
    return replace(view, text=text), what


def text_lines(text: Text, columns: int) -> tuple[str, ...]:
    """In lines that fit. What is not there yet is said to come."""
    if text.kind == "help":
        return tuple(HELP.splitlines())
    if not text.lines:
        return ("" if text.complaint else "...",)
    return _fitted(text.lines, columns)


@lru_cache(maxsize=2)
def _fitted(lines: tuple[str, ...], columns: int) -> tuple[str, ...]:
    return tuple(part for line in lines for part in wrapped(line, columns))


def _while_reading(view: View, text: Text, key: str, columns: int, height: int) -> tuple[View, Action | None]:
    pod = text.pod
    if key in ("q", "escape", "left", "?") or (text.kind == "help" and key == "enter"):
        return replace(view, text=None), Close()
    if pod is not None:
        if key == "c" and text.kind == "logs" and len(pod.containers) > 1:
            at = pod.containers.index(text.container) if text.container in pod.containers else -1
            return _opened(view, Open("logs", pod, pod.containers[(at + 1) % len(pod.containers)]))
        if key == "s" and pod.containers:
            return view, Shell(pod, text.container or pod.containers[0])
        if key in _OPENS and _OPENS[key] != text.kind:
            container = pod.containers[0] if pod.containers and key == "l" else ""
            return _opened(view, Open(_OPENS[key], pod, container))
    last = max(0, len(text_lines(text, columns)) - height)
    if key == "f":
        return replace(view, text=replace(text, follows=not text.follows, offset=last)), None
    at = last if text.follows else min(text.offset, last)
    place = _place(at, key, height, last + 1)
    follows = text.kind == "logs" and (text.follows if place == at else place == last)
    return replace(view, text=replace(text, offset=place, follows=follows)), None


def title(text: Text) -> str:
    name = f"{text.pod.namespace}/{text.pod.name}" if text.pod else ""
    match text.kind:
        case "explain":
            return name
        case "logs":
            return f"{name}: log of {text.container}{'' if text.follows else ' (f follows)'}"
        case "events":
            return f"{name}: events"
        case "yaml":
            return f"{name}: as it is"
        case "help":
            return "Keys"
        case _:
            assert_never(text.kind)
