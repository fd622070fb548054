"""Which fields a request cannot set, and therefore cannot own: not the status with the object, not the rest with it."""

from typing import Final, NamedTuple

from pykubelet.apiserver.patch.fields import Fields, Path, field
from pykubelet.apiserver.schema.schema import Record, Schema

_ANY: Final = "*"


class Reach(NamedTuple):
    """The fields that a request can set: all but the excluded, or the included alone."""

    excluded: tuple[Path, ...] = ()
    included: tuple[Path, ...] = ()

    def __call__(self, fields: Fields) -> Fields:
        if self.included:
            return frozenset(path for path in fields if any(_fits(path, pattern) for pattern in self.included))
        heads = {each[0] for each in self.excluded}  # most fields are not even near
        return frozenset(
            path
            for path in fields
            if path[0] not in heads or not any(path[: len(each)] == each for each in self.excluded)
        )


def _fits(path: Path, pattern: Path) -> bool:
    """Whether a field is in the pattern, or on the way to it."""
    return all(expected in (_ANY, given) for given, expected in zip(path, pattern, strict=False))


def _path(text: str) -> Path:
    return tuple(part if part == _ANY else field(part) for part in text.split("."))


def _all_but(*texts: str) -> Reach:
    return Reach(excluded=tuple(map(_path, texts)))


def _only(*texts: str) -> Reach:
    return Reach(included=tuple(map(_path, texts)))


_EVERYTHING: Final = Reach()
_NO_STATUS: Final = _all_but("status")
_STATUS_ALONE: Final = _all_but("spec")
_SPECIAL: Final = {
    ("CertificateSigningRequest", ""): _all_but("spec", "status"),
    ("CertificateSigningRequest", "approval"): _all_but("spec", "status.certificate"),
    ("CertificateSigningRequest", "status"): _all_but("spec", "status.conditions"),
    ("Pod", "ephemeralcontainers"): _only("spec.ephemeralContainers"),
    ("Pod", "resize"): _only(
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
    ),
    ("Pod", "status"): _all_but("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
}


def reach(kind: str, schema: Schema, subresource: str) -> Reach:
    if not isinstance(schema, Record) or "status" not in schema.fields:
        return _EVERYTHING
    if (special := _SPECIAL.get((kind, subresource))) is not None:
        return special
    return _STATUS_ALONE if subresource == "status" else _NO_STATUS
