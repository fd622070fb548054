"""Annotations that mean something for a pod, and that must agree with the fields which took their place."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pykubelet.api.codec import DecodeError, convert, decode_any
from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.well_known import APP_ARMOR_PREFIX, MIRROR_ANNOTATION
from pykubelet.api.scheduling import Toleration
from pykubelet.api.security import AppArmorProfile, SeccompProfile
from pykubelet.api.validation.options import Errors, every_container
from pykubelet.api.validation.rules import relative_path
from pykubelet.api.validation.scheduling import validate_tolerations

_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_INT32: Final = re.compile("(0|[1-9][0-9]{0,9})|-0*([0-9]{1,10})")  # zeros only after a minus, as upstream reads it
_TOLERATION_FIELDS: Final = {name.lower(): name for name in ("key", "operator", "value", "effect", "tolerationSeconds")}


def validate_pod_annotations(meta: ObjectMeta, spec: PodSpec, path: str) -> Errors:
    annotations = meta.annotations
    if MIRROR_ANNOTATION in annotations and not spec.node_name:
        yield invalid(
            f"{path}[{MIRROR_ANNOTATION}]",
            annotations[MIRROR_ANNOTATION],
            "needs spec.nodeName: a mirror pod shows a pod of a node",
        )
    if annotations.get(_TOLERATIONS):
        yield from _tolerations(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST, "0")
    if not _is_int32(cost):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a whole number of 32 bits")
    if _SECCOMP_POD in annotations:
        yield from _seccomp_name(annotations[_SECCOMP_POD], f"{path}.{_SECCOMP_POD}")
    for key, profile in annotations.items():
        if key.startswith(_SECCOMP_CONTAINER):
            yield from _seccomp_name(profile, f"{path}.{key}")
    yield from _app_armor_names(annotations, spec, path)


def validate_seccomp_agrees(annotations: Mapping[str, str], spec: PodSpec, path: str) -> Errors:
    pod_profile = spec.security_context.seccomp_profile if spec.security_context else None
    if pod_profile is not None and _SECCOMP_POD in annotations:
        place = f"{path}.securityContext.seccompProfile"
        yield from _agrees(annotations[_SECCOMP_POD], pod_profile, place, ("runtime/default", "docker/default"))
    for container, place in every_container(spec, path):
        profile = container.security_context.seccomp_profile if container.security_context else None
        annotation = annotations.get(_SECCOMP_CONTAINER + container.name)
        if profile is not None and annotation is not None:
            place = f"{place}.securityContext.seccompProfile"
            yield from _agrees(annotation, profile, place, ("runtime/default", "docker/default"))


def validate_app_armor_agrees(annotations: Mapping[str, str], spec: PodSpec, path: str) -> Errors:
    if spec.os is not None and spec.os.name == "windows":
        return
    pod_profile = spec.security_context.app_armor_profile if spec.security_context else None
    for container, place in every_container(spec, path):
        own = container.security_context.app_armor_profile if container.security_context else None
        profile = own or pod_profile
        annotation = annotations.get(APP_ARMOR_PREFIX + container.name)
        if profile is not None and annotation is not None:
            yield from _agrees(annotation, profile, f"{place}.securityContext.appArmorProfile", ("runtime/default",))


def _agrees(
    annotation: str, profile: SeccompProfile | AppArmorProfile, path: str, default_names: tuple[str, ...]
) -> Errors:
    local = annotation.removeprefix("localhost/") if annotation.startswith("localhost/") else None
    same_type = {
        "Unconfined": annotation == "unconfined",
        "RuntimeDefault": annotation in default_names,
        "Localhost": local is not None,
    }
    if not same_type.get(profile.type, True):
        yield forbidden(f"{path}.type", f"must agree with the annotation, which says {annotation}")
    elif profile.type == "Localhost" and local != profile.localhost_profile:
        yield forbidden(f"{path}.localhostProfile", f"must agree with the annotation, which says {annotation}")


def _seccomp_name(profile: str, field: str) -> Errors:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith("localhost/"):
        yield from relative_path(field, profile.removeprefix("localhost/"))
    else:
        yield invalid(field, profile, "must be runtime/default, unconfined or localhost/<file>")


def _app_armor_names(annotations: Mapping[str, str], spec: PodSpec, path: str) -> Errors:
    containers = {container.name for container, _ in every_container(spec, "")}
    for key, profile in annotations.items():
        if not key.startswith(APP_ARMOR_PREFIX):
            continue
        name = key.removeprefix(APP_ARMOR_PREFIX)
        if name not in containers:
            yield invalid(f"{path}[{key}]", name, "must name a container of this pod")
        if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
            yield invalid(f"{path}[{key}]", profile, "must be runtime/default, unconfined or localhost/<profile>")


def _is_int32(text: str) -> bool:
    match = _INT32.fullmatch(text)
    return match is not None and -(2**31) <= int(match[1] or f"-{match[2]}") < 2**31


def _tolerations(text: str, path: str) -> Errors:
    try:
        tolerations = tuple(_toleration(item) for item in _listed(decode_any(text)))
    except DecodeError as error:
        yield _unreadable(path, str(error))
    else:
        yield from validate_tolerations(tolerations, f"{path}.{_TOLERATIONS}")


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DecodeError("is not a list")
    return value


def _toleration(item: Any) -> Toleration:
    """The annotation is older than the field: its keys may be spelled in any case."""
    if item is None:
        return Toleration()
    if not isinstance(item, dict):
        raise DecodeError("has an entry that is not an object")
    fields = {
        _TOLERATION_FIELDS[key.lower()]: value for key, value in item.items() if key.lower() in _TOLERATION_FIELDS
    }
    if isinstance(fields.get("tolerationSeconds"), float):
        raise DecodeError("has tolerationSeconds that are not a whole number")
    return convert(Toleration, fields)


def _unreadable(path: str, reason: str) -> FieldError:
    return invalid(path, _TOLERATIONS, f"must hold a JSON list of tolerations: it {reason}")
