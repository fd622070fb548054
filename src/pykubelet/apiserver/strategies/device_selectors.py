"""Which devices an expression means: what it sees of a device, and how it is made ready.

The engine takes long to load, and few clusters have devices: it is loaded when the first expression is."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pykubelet.apiserver.objects import Object

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.program import Program

LONGEST: Final = 10 << 10
_KEPT: Final = 32


class _Domains(dict[str, dict[str, Any]]):
    """By domain, what a device has; of a domain that it knows nothing of, it has nothing."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


@lru_cache(_KEPT)
def compiled(expression: str) -> "Program":
    """Raises CompileError."""
    from pykubelet.apiserver.cel.program import CompileError, compile_expression
    from pykubelet.apiserver.cel.types import DYN, STRING, ObjectType, Type, map_of

    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
    }
    device = ObjectType("kubernetes.DRADevice", fields=fields)
    program = compile_expression(expression, {"device": device}, binds=True)
    if program.type.name not in ("bool", "dyn"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.type}")
    return program


def device_value(driver: str, device: Object) -> Any:
    """What an expression sees. Raises CelError."""
    from pykubelet.apiserver.cel.library_kubernetes import read_amount
    from pykubelet.apiserver.cel.values import ObjectValue

    attributes, capacity = _Domains(), _Domains()
    for name, given in (device.get("attributes") or {}).items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _value(name, given or {})
    for name, given in (device.get("capacity") or {}).items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = read_amount(str((given or {}).get("value", "0")))
    return ObjectValue({"driver": driver, "attributes": attributes, "capacity": capacity}, "kubernetes.DRADevice")


def attribute(driver: str, device: Object, name: str) -> tuple[str, Any] | None:
    """The value of an attribute by its whole name, with its type; None: the device has none."""
    known = device.get("attributes") or {}
    domain, _, own = name.partition("/")
    given = known.get(name) or (known.get(own) if own and domain == driver else None)
    return next(iter(given.items()), None) if given else None


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _value(name: str, given: Object) -> Any:
    from pykubelet.apiserver.cel.library_kubernetes import read_semver
    from pykubelet.apiserver.cel.values import CelError

    for kind in ("int", "bool", "string"):
        if given.get(kind) is not None:
            return given[kind]
    if given.get("version") is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    try:
        return read_semver(given["version"])
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from None
