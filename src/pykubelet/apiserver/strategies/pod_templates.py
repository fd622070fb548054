"""The template that a workload makes its pods of: what is filled in, and what is wrong with it."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.codec import DecodeError, convert, to_builtins
from pykubelet.api.defaults import default_image_volumes, default_template_spec
from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import PodSpec
from pykubelet.api.selectors import from_json, matches
from pykubelet.api.validation.annotations import (
    validate_app_armor_agrees,
    validate_pod_annotations,
    validate_seccomp_agrees,
)
from pykubelet.api.validation.meta import validate_annotations, validate_labels
from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.api.validation.pod import validate_pod_spec
from pykubelet.apiserver.objects import Object, overlay
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.pods import check_amount

_OPTIONS: Final = PodValidationOptions(resource_is_pod=False)


def normal_template(template: dict[str, Any], path: str) -> dict[str, Any]:
    """The template with its defaults. Raises DecodeError."""
    check_amount(template)
    given = template.get("spec") or {}
    try:
        spec = overlay(given, to_builtins(default_image_volumes(default_template_spec(convert(PodSpec, given)))))
    except DecodeError as error:
        raise DecodeError(error.reason, f"{path}.spec.{error.field}" if error.field else f"{path}.spec") from None
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    return {**template, "metadata": template.get("metadata") or {}, "spec": spec}


def template_faults(template: dict[str, Any], path: str) -> Iterator[FieldError]:
    """What is wrong with a template that has its defaults."""
    meta, spec = convert(ObjectMeta, template.get("metadata") or {}), convert(PodSpec, template.get("spec") or {})
    yield from validate_labels(meta.labels, f"{path}.labels")
    yield from validate_annotations(meta.annotations, f"{path}.annotations")
    yield from validate_pod_annotations(meta, spec, f"{path}.annotations")
    yield from validate_pod_spec(spec, None, f"{path}.spec", _OPTIONS)
    yield from validate_seccomp_agrees(meta.annotations, spec, f"{path}.spec")
    yield from validate_app_armor_agrees(meta.annotations, spec, f"{path}.spec")
    if spec.ephemeral_containers:
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def selection_faults(
    selector: dict[str, Any] | None, template: dict[str, Any], path: str = "spec.template"
) -> Iterator[FieldError]:
    """What is wrong with a template whose pods the selector would not find."""
    try:
        found = from_json(selector)
    except ValueError:
        return  # what is wrong with the selector itself is told elsewhere
    labels = (template.get("metadata") or {}).get("labels") or {}
    if found and not matches(found, labels):
        yield invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")


class PodTemplateStrategy(Strategy):
    """Of a template that is stored by itself."""

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result["template"] = normal_template(result.get("template") or {}, "template")
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from template_faults(obj["template"], "template")
