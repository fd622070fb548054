"""The Go kubelet's flags, from the table of options: each overrides its field of the configuration file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pykubelet.base.errors import Invalid
from pykubelet.config.command_line import parse
from pykubelet.config.option import Kind, Option
from pykubelet.config.options import OPTIONS

if TYPE_CHECKING:
    from pykubelet.api.scheduling import Taint

K = Kind

_FLAGS: Final = {option.flag: option for option in OPTIONS if option.flag}
_METAVARS: Final = {
    K.NUMBER: "N",
    K.COUNT: "N",
    K.LONG: "N",
    K.PERIOD: "DURATION",
    K.DURATION: "DURATION",
    K.EXACT_DURATION: "DURATION",
    K.SIGNED_DURATION: "DURATION",
    K.FLUSH_PERIOD: "DURATION",
    K.SIZE: "SIZE",
    K.QUANTITY: "SIZE",
    K.ADDRESS: "IP",
    K.LIST: "LIST",
    K.ADDRESSES: "IP[,IP]",
    K.PAIRS: "K=V,...",
    K.THRESHOLDS: "K<V,...",
    K.RESOURCES: "cpu=...,...",
    K.TAINTS: "K=V:EFFECT,...",
    K.MEMORY: "N:memory=...",
}
_TRUTHS: Final = (K.TRUTH, K.SWITCH)
_ALONE: Final = {"help": "true", "version": "true"} | {
    name: "true" if option.kind in _TRUTHS else "" for name, option in _FLAGS.items()
}
_ADDING_UP: Final = (K.LIST, K.ADDRESSES, K.PAIRS, K.THRESHOLDS, K.RESOURCES, K.GATES, K.HEADERS, K.MEMORY)
"""What was given before is added to; of the other kinds the last one counts."""


class Flags:
    """What a command line says. Raises Invalid for one that cannot be understood."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._all = parse(arguments, _ALONE)
        self._texts: dict[str, list[str]] = {}
        for flag, text in self._all:
            self._texts.setdefault(flag, []).append(text)
        self.given = dict(_read_all(self._texts))
        """As a file would say it, by the options' keys."""

    @property
    def asks_for_help(self) -> bool:
        return truth("help", self._last("help") or "false")

    @property
    def version(self) -> str:
        """Which is asked for: `true`, `raw`, `false`, or what is to be said instead, beginning with a v."""
        text = self._last("version") or "false"
        return text if text == "raw" or text.startswith("v") else str(truth("version", text)).lower()

    @property
    def shown(self) -> dict[str, str]:
        """As they were given, but for secrets, by their names."""
        hidden = {name for name, option in _FLAGS.items() if option.secret}
        return {flag: ",".join(texts) for flag, texts in self._texts.items() if flag not in hidden and any(texts)}

    def deprecated(self) -> Iterator[str]:
        """A sentence for each flag that people should no longer give."""
        for option in (_FLAGS[flag] for flag in self._texts if flag in _FLAGS):
            if option.is_deprecated:
                instead = option.vain or "upstream will remove it"
                if option.field:
                    instead = f"set {option.field} in the file that --config names"
                yield f"Flag --{option.flag} has been deprecated, {instead}"

    def _last(self, flag: str) -> str:
        return self._texts.get(flag, [""])[-1]


def described() -> Iterator[tuple[str, str]]:
    """Every flag with what it takes, and what it does."""
    yield "-h, --help", "Show this."
    yield "--version[=raw]", "Print the version."
    for option in _FLAGS.values():
        metavar = option.metavar or _METAVARS.get(option.kind, "" if option.kind in _TRUTHS else "TEXT")
        name = f"-{option.flag}, --{option.flag}" if len(option.flag) == 1 else f"--{option.flag}"
        if option.vain:
            yield f"{name} {metavar}", f"No effect: {option.vain}."
        else:
            yield f"{name} {metavar}", f"{option.help} [{option.told}]." if option.told else f"{option.help}."


def completable() -> Iterator[tuple[str, str, str]]:
    """The name of every flag that has an effect, what it takes, and what it does."""
    for name, option in _FLAGS.items():
        if not option.vain:
            yield (
                name,
                "" if option.kind in _TRUTHS else option.metavar or _METAVARS.get(option.kind, "TEXT"),
                option.help,
            )


def _read_all(texts: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Any]]:
    for flag, given in texts.items():
        if option := _FLAGS.get(flag):
            yield option.key, _read(option, ",".join(given) if option.kind in _ADDING_UP else given[-1])


def _read(option: Option, text: str) -> Any:
    match option.kind:
        case K.TRUTH | K.SWITCH:
            return truth(option.flag, text)
        case K.NUMBER | K.COUNT | K.LONG:
            return _number(option.flag, text)
        case K.LIST | K.ADDRESSES | K.PARTS:
            return tuple(_parts(text))
        case K.PAIRS | K.RESOURCES:
            return _pairs(option.flag, text)
        case K.THRESHOLDS:
            return _pairs(option.flag, text, "<")
        case K.GATES:
            return {name: truth(f"{option.flag}: {name}", on) for name, on in _pairs(option.flag, text).items()}
        case K.HEADERS:
            return headers(text)
        case K.TAINTS:
            return _taints(option.flag, text)
        case K.VMODULE:
            return tuple(
                {"filePattern": pattern, "verbosity": _number(option.flag, level)}
                for pattern, level in _pairs(option.flag, text).items()
            )
        case K.MEMORY:
            return _memory(option.flag, text)
        case _:
            return text


def _parts(text: str) -> Iterable[str]:
    return filter(None, (part.strip() for part in text.split(",")))


def truth(flag: str, text: str) -> bool:
    """The spellings that Go takes."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise Invalid(f"--{flag}: write true or false, not {text!r}")


def _number(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"--{flag}: {text!r} is not a whole number") from None


def _pairs(flag: str, text: str, between: str = "=") -> dict[str, str]:
    found = {}
    for part in _parts(text):
        name, sign, value = part.partition(between)
        if not sign or not name:
            raise Invalid(f"--{flag}: write name{between}value, several separated by commas, not {part!r}")
        found[name.strip()] = value.strip()
    return found


def _taints(flag: str, text: str) -> "tuple[Taint, ...]":
    from pykubelet.api.scheduling import Taint  # who asks for help does not wait for it

    taints = []
    for part in _parts(text):
        rest, colon, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise Invalid(f"--{flag}: write key=value:Effect, such as dedicated=db:NoSchedule, not {part!r}")
        taints.append(Taint(key=key, value=value, effect=effect))
    return tuple(taints)


def _memory(flag: str, text: str) -> tuple[dict[str, Any], ...]:
    """`0:memory=1Gi,hugepages-2Mi=1Gi,1:memory=2Gi`."""
    found: dict[int, dict[str, str]] = {}
    node = None
    for part in _parts(text):
        number, colon, rest = part.partition(":")
        if colon:
            node, part = _number(flag, number), rest
        name, equals, amount = part.partition("=")
        if node is None or not equals or not name:
            raise Invalid(f"--{flag}: write node:name=amount, such as 0:memory=1Gi, not {part!r}")
        found.setdefault(node, {})[name] = amount
    return tuple({"numaNode": node, "limits": limits} for node, limits in found.items())


def headers(text: str) -> dict[str, tuple[str, ...]]:
    """`a:hello,b:again` -> headers, as `--manifest-url-header` takes them. Raises Invalid without showing a value."""
    found: dict[str, tuple[str, ...]] = {}
    for part in (part for part in text.split(",") if part.strip()):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise Invalid("--manifest-url-header: write name:value, several separated by commas")
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found
