"""Pods for the validation tests: short to write, and complete as defaulting leaves them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api.codec import convert
from pykubelet.api.pod import Pod
from pykubelet.api.validation import PodValidationOptions, validate_pod

DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
INVALID = "FieldValueInvalid"
NOT_FOUND = "FieldValueNotFound"
NOT_SUPPORTED = "FieldValueNotSupported"
REQUIRED = "FieldValueRequired"
TOO_LONG = "FieldValueTooLong"

Fragment = Mapping[str, Any]
Expected = Sequence[tuple[str, str]]
Row = tuple[str, Fragment, Expected]

CONTAINER = {"name": "main", "image": "busybox", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
SPEC = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}
META = {"name": "web", "namespace": "default"}


def container(**fields: Any) -> dict[str, Any]:
    return CONTAINER | fields


def with_container(fields: Fragment) -> dict[str, Any]:
    """A spec whose only container has these fields."""
    return {"containers": [CONTAINER | dict(fields)]}


def pod_of(spec: Fragment | None = None, meta: Fragment | None = None) -> Pod:
    whole = SPEC | {"containers": [CONTAINER]} | dict(spec or {})
    return convert(Pod, {"metadata": META | dict(meta or {}), "spec": whole})


def found(
    spec: Fragment | None = None, meta: Fragment | None = None, options: PodValidationOptions | None = None
) -> list[tuple[str, str]]:
    """Field and type of everything that is wrong with a pod of these parts."""
    errors = validate_pod(pod_of(spec, meta), options or PodValidationOptions())
    return [(error.field, error.type) for error in errors]


def under(place: str, expected: Expected) -> list[tuple[str, str]]:
    """The expected faults, with the place they all have in common put before each field."""
    return [(f"{place}{'.' if field and field[0] != '[' else ''}{field}", kind) for field, kind in expected]


def names_of(rows: Sequence[Row]) -> list[str]:
    return [what for what, _, _ in rows]
