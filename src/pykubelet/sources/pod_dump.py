"""The text that Kubernetes prints of a pod it holds in memory, from which it makes the identity of a static pod.

Printing the very same text gives a static pod the uid that any other agent gives it, so that agents can be exchanged on
a living node. The types are data (`_gen/internal_pod.py`); what is printed is the manifest as it was written, with the
defaults, in the shape that Kubernetes holds.
"""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pykubelet.api import codec
from pykubelet.api.defaults import default_pod, default_pod_spec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.sources._gen.internal_pod import NAMED, TYPES
from pykubelet.sources.held_quantity import HeldQuantity, held_quantity

_INLINE: Final = "."
_ZEROS: Final = {"string": "", "bool": "false"}
_OLD_INIT_ANNOTATIONS: Final = tuple(
    f"pod.{stage}.kubernetes.io/init-container{what}" for stage in ("beta", "alpha") for what in ("s", "-statuses")
)
_UNIVERSAL_TIME: Final = (
    "{name:(string)Local zone:([]time.zone)[{name:(string)UTC offset:(int)0 isDST:(bool)false}]"
    " tx:([]time.zoneTrans)[{when:(int64)-9223372036854775808 index:(uint8)0 isstd:(bool)false isutc:(bool)false}]"
    " extend:(string)UTC0 cacheStart:(int64)-9223372036854775808 cacheEnd:(int64)9223372036854775807"
    " cacheZone:(*time.zone){name:(string)UTC offset:(int)0 isDST:(bool)false}}"
)
"""The zone of a node that keeps to UTC. With any other, the text depends on the zone's rules and on the season."""


class _Field(NamedTuple):
    name: str
    key: str
    type: str


def pod_dump(written: Mapping[str, Any], pod: Pod) -> str:
    """`written` is the manifest as plain values, `pod` the same, decoded and without defaults."""
    defaulted = codec.to_builtins(default_pod(pod))
    held = _overlaid(written, {"metadata": defaulted["metadata"], "spec": defaulted["spec"]})
    _convert_metadata(held["metadata"])
    _convert_spec(held["spec"], written.get("spec") or {}, pod.spec)
    _convert_status(held.get("status") or {})
    return _printed("*core.Pod", held | {"kind": "", "apiVersion": ""})


# --- from what was written to what is held


def _overlaid(written: Any, defaulted: Any) -> Any:
    """What was written, completed by defaults. Unlike an object of ours it tells an empty list from an absent one."""
    if isinstance(written, Mapping) or (written is None and isinstance(defaulted, Mapping)):
        members: Mapping[str, Any] = written or {}
        defaults: Mapping[str, Any] = defaulted if isinstance(defaulted, Mapping) else {}
        return {key: _overlaid(members.get(key), defaults.get(key)) for key in {**members, **defaults}}
    if written is None:
        return None if defaulted == [] else defaulted
    if isinstance(written, list):
        others = defaulted if isinstance(defaulted, list) and len(defaulted) == len(written) else [None] * len(written)
        return [_overlaid(mine, other) for mine, other in zip(written, others, strict=True)]
    return written if defaulted is None or written else defaulted


def _convert_metadata(metadata: dict[str, Any]) -> None:
    annotations = metadata.get("annotations") or {}
    for key in _OLD_INIT_ANNOTATIONS:
        annotations.pop(key, None)


def _convert_spec(held: dict[str, Any], written: Mapping[str, Any], spec: PodSpec) -> None:
    held["serviceAccountName"] = held.get("serviceAccountName") or held.get("serviceAccount")
    for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"):
        held["securityContext"][key] = held.get(key)
    if held["terminationGracePeriodSeconds"] < 0:
        held["terminationGracePeriodSeconds"] = 1
    for key in ("containers", "initContainers"):
        for container, original in zip(held.get(key) or (), written.get(key) or (), strict=True):
            _convert_resources(container.get("resources") or {}, original.get("resources") or {})
    if spec.resources is not None:
        held["resources"] |= _whole_resources(held, spec)


def _convert_resources(held: dict[str, Any], written: Mapping[str, Any]) -> None:
    """What is requested because it is the limit is spelled like the limit."""
    if held.get("limits") is not None:
        held["requests"] = held["limits"] | (written.get("requests") or {})


def _whole_resources(held: Mapping[str, Any], spec: PodSpec) -> dict[str, Any]:
    """The pod's limits and requests as a whole. Sums over its containers are held as the sums that they are."""
    spec = changed(
        spec,
        resources=_with_held_quantities(spec, held).resources,
        containers=tuple(map(_with_held_quantities, spec.containers, held.get("containers") or ())),
        init_containers=tuple(map(_with_held_quantities, spec.init_containers, held.get("initContainers") or ())),
    )
    whole = default_pod_spec(spec).resources
    assert whole is not None
    return {key: amounts for key, amounts in (("limits", whole.limits), ("requests", whole.requests)) if amounts}


def _with_held_quantities(value: Any, held: Mapping[str, Any]) -> Any:
    """A container or spec, each of whose quantities is as it was spelled. Without defaults."""
    written = held["resources"]
    limits, requests = (
        {name: _quantity_of(written[key][name]) for name in amounts}
        for key, amounts in (("limits", value.resources.limits), ("requests", value.resources.requests))
    )
    return changed(value, resources=changed(value.resources, limits=limits, requests=requests))


def _convert_status(held: dict[str, Any]) -> None:
    """One address wins over a list of them that starts with another."""
    address, addresses = held.get("podIP"), held.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        held["podIPs"] = [{"ip": address}]


# --- printing


@functools.cache
def _types() -> tuple[dict[str, tuple[_Field, ...]], dict[str, str]]:
    types: dict[str, tuple[_Field, ...]] = {}
    for name, fields in re.findall(r"^(\S+):\n((?: .*\n)*)", TYPES, re.MULTILINE):
        parts = (field.split("=", 2) for field in fields.split())
        types[name] = tuple(_Field(name, key or name[0].lower() + name[1:], kind) for name, key, kind in parts)
    return types, dict(named.split("=", 1) for named in NAMED.split())


def _printed(kind: str, value: Any) -> str:
    """A value with its type in front."""
    return f"({kind}){_body(kind, value)}"


def _body(kind: str, value: Any) -> str:
    types, named = _types()
    if kind[0] == "*":
        return "<nil>" if value is None else _body(kind[1:], value)
    if kind in _SPECIAL:
        return _SPECIAL[kind](value)
    if kind in types:
        return f"{{{' '.join(_field(field, value or {}) for field in types[kind])}}}"
    if kind == "core.ResourceList" and value is not None:
        return f"map[{' '.join(f'{name}:{_resource(value[name])}' for name in sorted(value))}]"
    kind = named.get(kind, kind)
    if kind.startswith("[]"):
        return "<nil>" if value is None else f"[{' '.join(_body(kind[2:], each) for each in value)}]"
    if kind.startswith("map["):
        inner = kind.partition("]")[2]
        if value is None:
            return "<nil>"
        return f"map[{' '.join(f'{key}:{_body(inner, value[key])}' for key in sorted(value, key=_bytes))}]"
    if value is None:
        return _ZEROS.get(kind, "0")
    return str(value).lower() if kind == "bool" else str(value)


def _field(field: _Field, members: Mapping[str, Any]) -> str:
    key = field.name[0].lower() + field.name[1:] if field.key == "-" else field.key
    return f"{field.name}:{_printed(field.type, members if key == _INLINE else members.get(key))}"


def _bytes(text: str) -> bytes:
    return text.encode()


def _resource(value: Any) -> str:
    held = value if isinstance(value, HeldQuantity) else _quantity_of(value)
    return held.rounded_to_milli().dump()


def _quantity_of(value: Any) -> HeldQuantity:
    return held_quantity(repr(value).removesuffix(".0") if isinstance(value, float) else str(value))


def _quantity(value: Any) -> str:
    """One that is absent has not even a format."""
    if value is None:
        return HeldQuantity(0, 0, "DecimalSI").dump().replace("DecimalSI", "")
    return _quantity_of(value).dump()


def _int_or_string(value: Any) -> str:
    number, text = (0, value) if isinstance(value, str) else (value or 0, "")
    return f"{{Type:(intstr.Type){int(isinstance(value, str))} IntVal:(int32){number} StrVal:(string){text}}}"


def _time(value: Any) -> str:
    """Nanoseconds, seconds since the year 1, and the node's zone."""
    fraction, seconds, zone = 0, 0, "<nil>"
    if value is not None:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        since = moment.astimezone(UTC) - datetime(1, 1, 1, tzinfo=UTC)
        fraction, seconds, zone = since.microseconds * 1000, since.days * 86400 + since.seconds, _UNIVERSAL_TIME
    return f"{{Time:(time.Time){{wall:(uint64){fraction} ext:(int64){seconds} loc:(*time.Location){zone}}}}}"


def _fields_v1(value: Any) -> str:
    return f"{{Raw:([]uint8)[{' '.join(map(str, codec.encode_canonical(value)))}]}}"


_SPECIAL: Final[Mapping[str, Callable[[Any], str]]] = {
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "v1.Time": _time,
    "v1.FieldsV1": _fields_v1,
}
