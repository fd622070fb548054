"""The Go kubelet's flags, from the table of options: each overrides its field of the configuration file.

A truth value may stand alone (`--register-node`) or be given with an equals sign (`--register-node=false`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pykubelet.base.errors import Invalid
from pykubelet.config.options import OPTIONS, Kind, Option

if TYPE_CHECKING:
    from pykubelet.api.scheduling import Taint

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS: Final = tuple(option for option in OPTIONS if option.flag)
_METAVARS: Final = {
    Kind.TRUTH: "BOOL",
    Kind.NUMBER: "N",
    Kind.LONG: "N",
    Kind.PERIOD: "DURATION",
    Kind.DURATION: "DURATION",
    Kind.SIZE: "SIZE",
    Kind.ADDRESS: "IP",
    Kind.LIST: "LIST",
    Kind.ADDRESSES: "IP[,IP]",
    Kind.RESOURCES: "cpu=...,...",
    Kind.TAINTS: "K=V:EFFECT,...",
}


def options(command: F) -> F:
    """Give a command all the flags. Their values arrive as text, None when not given."""
    for option in reversed(_FLAGS):
        more: dict[str, Any] = {"help": _help(option), "metavar": option.metavar or _METAVARS.get(option.kind)}
        if option.kind is Kind.TRUTH:
            more |= {"is_flag": False, "flag_value": "true"}
        if option.kind is Kind.HEADERS:
            more["multiple"] = True
        command = click.option(f"--{option.flag}", _name(option), **more)(command)
    return command


def given(texts: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, from the values by `options`' names, as a file would say it and by the options' keys. Raises
    Invalid."""
    return {
        option.key: _read(option, text) for option in _FLAGS if (text := texts.get(_name(option))) not in (None, ())
    }


def shown(texts: Mapping[str, Any]) -> dict[str, str]:
    """Those flags that were given, but for secrets, by their names."""
    named = ((option, texts.get(_name(option))) for option in _FLAGS if not option.secret)
    return {option.flag: str(text) for option, text in named if text}


def _name(option: Option) -> str:
    return option.flag.replace("-", "_")


def _help(option: Option) -> str:
    return f"{option.help} [{option.told}]." if option.told else f"{option.help}."


def _read(option: Option, text: Any) -> Any:
    match option.kind:
        case Kind.TRUTH:
            return _truth(option.flag, text)
        case Kind.NUMBER | Kind.LONG:
            return _number(option.flag, text)
        case Kind.LIST | Kind.ADDRESSES:
            return tuple(_parts(text))
        case Kind.PAIRS | Kind.RESOURCES:
            return _pairs(option.flag, text)
        case Kind.HEADERS:
            return headers(text)
        case Kind.TAINTS:
            return _taints(option.flag, text)
        case _:
            return text


def _parts(text: str) -> Iterable[str]:
    return filter(None, (part.strip() for part in text.split(",")))


def _truth(flag: str, text: str) -> bool:
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


def _pairs(flag: str, text: str) -> dict[str, str]:
    found = {}
    for part in _parts(text):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise Invalid(f"--{flag}: write name=value, several separated by commas, not {part!r}")
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


def headers(texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """`a:hello,b:again` -> headers, as `--manifest-url-header` takes them. Raises Invalid without showing a value."""
    found: dict[str, tuple[str, ...]] = {}
    for part in (part for text in texts for part in text.split(",") if part.strip()):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise Invalid("--manifest-url-header: write name:value, several separated by commas")
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found
