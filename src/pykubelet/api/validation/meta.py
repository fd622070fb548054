"""Metadata: names, labels, annotations, owners, finalizers; and label selectors."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.api.field_errors import forbidden, invalid, required, too_long
from pykubelet.api.meta import LabelSelector, LabelSelectorRequirement, ManagedFieldsEntry, ObjectMeta, OwnerReference
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import needed, not_negative, spelled

_ANNOTATIONS_SIZE: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_GROUP_VERSION: Final = re.compile(r"(?:([^/]*)/)?([^/]+)")


def validate_object_meta(meta: ObjectMeta, path: str) -> Errors:
    """The metadata of an object that lives in a namespace and whose name is a DNS subdomain."""
    if meta.generate_name:
        yield from spelled(f"{path}.generateName", meta.generate_name, names.name_prefix(meta.generate_name))
    if meta.name:
        yield from spelled(f"{path}.name", meta.name, names.dns_subdomain(meta.name))
    else:
        yield required(f"{path}.name", "is required, or a generateName to make one from")
    yield from needed(f"{path}.namespace", meta.namespace, names.dns_label)
    yield from not_negative(f"{path}.generation", meta.generation)
    yield from validate_labels(meta.labels, f"{path}.labels")
    yield from validate_annotations(meta.annotations, f"{path}.annotations")
    yield from _owner_references(meta.owner_references, f"{path}.ownerReferences")
    yield from _finalizers(meta.finalizers, f"{path}.finalizers")
    yield from _managed_fields(meta.managed_fields, f"{path}.managedFields")
    for index, finalizer in enumerate(meta.finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            yield invalid(
                f"{path}.finalizers[{index}]",
                finalizer,
                "must have a domain before its name, such as example.com/cleanup",
            )


def validate_labels(labels: Mapping[str, str], path: str) -> Errors:
    for key, value in labels.items():
        yield from spelled(path, key, names.qualified_name(key))
        yield from spelled(path, value, names.label_value(value))


def validate_annotations(annotations: Mapping[str, str], path: str) -> Errors:
    for key in annotations:
        yield from spelled(path, key, names.qualified_name(key.lower()))
    if sum(names.size(key) + names.size(value) for key, value in annotations.items()) > _ANNOTATIONS_SIZE:
        yield too_long(path, _ANNOTATIONS_SIZE)


def validate_template_meta(meta: ObjectMeta, path: str) -> Errors:
    """The metadata of an object made for a pod: labels and annotations are taken over, nothing else may be set."""
    yield from validate_annotations(meta.annotations, f"{path}.annotations")
    yield from validate_labels(meta.labels, f"{path}.labels")
    others = {
        "name": meta.name,
        "generateName": meta.generate_name,
        "namespace": meta.namespace,
        "selfLink": meta.self_link,
        "uID": meta.uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
        "creationTimestamp": meta.creation_timestamp,
        "deletionTimestamp": meta.deletion_timestamp,
        "deletionGracePeriodSeconds": meta.deletion_grace_period_seconds is not None,
        "ownerReferences": meta.owner_references,
        "finalizers": meta.finalizers,
        "managedFields": meta.managed_fields,
    }
    for name, value in others.items():
        if value:
            yield forbidden(f"{path}.{name}", "must not be set: a template takes only labels and annotations")


def validate_label_selector(selector: LabelSelector | None, path: str) -> Errors:
    if selector is None:
        return
    yield from validate_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        yield from _selector_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _selector_requirement(requirement: LabelSelectorRequirement, path: str) -> Errors:
    yield from operator_and_values(requirement.operator, requirement.values, path)
    yield from spelled(f"{path}.key", requirement.key, names.qualified_name(requirement.key))
    for index, value in enumerate(requirement.values):
        yield from spelled(f"{path}.values[{index}]", value, names.label_value(value))


def operator_and_values(operator: str, values: Sequence[str], path: str) -> Errors:
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", f"must have at least one value with the operator {operator}")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", f"must be empty with the operator {operator}")
    else:
        yield invalid(f"{path}.operator", operator, "must be one of In, NotIn, Exists, DoesNotExist")


def _owner_references(references: Sequence[OwnerReference], path: str) -> Errors:
    controller = ""
    for reference in references:
        yield from _owner_reference(reference, path)
        if not reference.controller:
            continue
        name = f"{reference.kind}/{reference.name}"
        if controller:
            yield invalid(path, name, f"must name only one controller, and {controller} is already one")
        else:
            controller = name


def _owner_reference(reference: OwnerReference, path: str) -> Errors:
    version = _GROUP_VERSION.fullmatch(reference.api_version)
    if version is None:
        yield invalid(f"{path}.apiVersion", reference.api_version, "must be a version, such as v1 or apps/v1")
    for name, value in (("kind", reference.kind), ("name", reference.name), ("uid", reference.uid)):
        if not value:
            yield invalid(f"{path}.{name}", value, "must not be empty")
    if version and not version[1] and version[2] == "v1" and reference.kind == "Event":
        yield invalid(path, reference.name, "must not name an Event as the owner")


def _finalizers(finalizers: Sequence[str], path: str) -> Errors:
    for finalizer in finalizers:
        yield from spelled(path, finalizer, names.qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid(path, None, "must not have both orphan and foregroundDeletion")


def _managed_fields(entries: Sequence[ManagedFieldsEntry], path: str) -> Errors:
    for index, entry in enumerate(entries):
        place = f"{path}[{index}]"
        if entry.operation not in ("Apply", "Update"):
            yield invalid(f"{place}.operation", entry.operation, "must be Apply or Update")
        if entry.fields_type not in ("", "FieldsV1"):
            yield invalid(f"{place}.fieldsType", entry.fields_type, "must be FieldsV1")
        if names.size(entry.manager) > 128:
            yield too_long(f"{place}.manager", 128)
        for letter in entry.manager:
            if not letter.isprintable():
                yield invalid(f"{place}.manager", entry.manager, f"must be printable, and {letter!r} is not")
        if names.size(entry.subresource) > 256:
            yield too_long(f"{place}.subresource", 256)
