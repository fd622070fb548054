"""The claims a pod makes: volume claims from a template, and claims on devices."""

from typing import Final

from pykubelet.api.field_errors import duplicate, forbidden, invalid, required
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import PodResourceClaim, PodSpec
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_label_selector, validate_template_meta
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.resources import validate_amount
from pykubelet.api.validation.rules import filled, one_of, spelled
from pykubelet.api.volume_sources import (
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    TypedLocalObjectReference,
    TypedObjectReference,
)

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_claim_template(template: PersistentVolumeClaimTemplate, path: str) -> Errors:
    yield from validate_template_meta(template.metadata, f"{path}.metadata")
    yield from validate_claim_spec(template.spec, f"{path}.spec")


def validate_resource_claims(spec: PodSpec, meta: ObjectMeta | None, path: str) -> Errors:
    seen: set[str] = set()
    for index, claim in enumerate(spec.resource_claims):
        if meta is not None and MIRROR_ANNOTATION in meta.annotations:
            yield forbidden("[]", "must not have resourceClaims in a static pod")
        else:
            yield from _resource_claim(claim, f"{path}[{index}]", seen)


def _resource_claim(claim: PodResourceClaim, path: str, seen: set[str]) -> Errors:
    if not claim.name:
        yield required(f"{path}.name")
    elif claim.name in seen:
        yield duplicate(f"{path}.name", claim.name)
    else:
        yield from spelled(f"{path}.name", claim.name, names.dns_label(claim.name))
        seen.add(claim.name)
    claim_name, template_name = claim.resource_claim_name, claim.resource_claim_template_name
    if (claim_name is None) == (template_name is None):
        yield invalid(path, claim.name, "must have exactly one of resourceClaimName and resourceClaimTemplateName")
    if claim_name is not None:
        yield from spelled(f"{path}.resourceClaimName", claim_name, names.dns_subdomain(claim_name))
    if template_name is not None:
        yield from spelled(f"{path}.resourceClaimTemplateName", template_name, names.dns_subdomain(template_name))


def validate_claim_spec(spec: PersistentVolumeClaimSpec, path: str) -> Errors:
    if not spec.access_modes:
        yield required(f"{path}.accessModes", "must have at least one access mode")
    yield from validate_label_selector(spec.selector, f"{path}.selector")
    for mode in spec.access_modes:
        yield from one_of(f"{path}.accessModes", mode, ACCESS_MODES)
    known = {*spec.access_modes} & {*ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        yield forbidden(f"{path}.accessModes", "must not have another mode beside ReadWriteOncePod")
    yield from _storage(spec, f"{path}.resources[storage]")
    if spec.storage_class_name:
        yield from _class_name(f"{path}.storageClassName", spec.storage_class_name)
    if spec.volume_mode is not None:
        yield from one_of(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem"))
    yield from _data_sources(spec, path)
    if spec.volume_attributes_class_name:
        yield from _class_name(f"{path}.volumeAttributesClassName", spec.volume_attributes_class_name)


def _storage(spec: PersistentVolumeClaimSpec, field: str) -> Errors:
    amount = spec.resources.requests.get("storage")
    if amount is None:
        yield required(field, "is required: how much storage to ask for")
    elif amount.sign <= 0:
        yield invalid(field, amount, "must be greater than 0")
    else:
        yield from validate_amount("storage", amount, field)


def _data_sources(spec: PersistentVolumeClaimSpec, path: str) -> Errors:
    source, reference = spec.data_source, spec.data_source_ref
    if source is not None:
        yield from _data_source(source, f"{path}.dataSource")
    if reference is not None:
        yield from _data_source(reference, f"{path}.dataSourceRef")
        if reference.namespace:
            yield from spelled(
                f"{path}.dataSourceRef.namespace", reference.namespace, names.dns_label(reference.namespace)
            )
    if source is None or reference is None:
        return
    if reference.namespace:
        yield invalid(path, None, "must not have dataSource beside a dataSourceRef with a namespace")
    elif (source.api_group, source.kind, source.name) != (reference.api_group, reference.kind, reference.name):
        yield invalid(path, None, "must have the same dataSource and dataSourceRef: set only one of them")


def _data_source(source: TypedLocalObjectReference | TypedObjectReference, path: str) -> Errors:
    yield from filled(f"{path}.name", source.name)
    yield from filled(f"{path}.kind", source.kind)
    if source.api_group:
        yield from spelled(f"{path}.apiGroup", source.api_group, names.dns_subdomain(source.api_group))
    elif source.kind != "PersistentVolumeClaim":
        yield invalid(path, source.kind, "must be a PersistentVolumeClaim, or have an apiGroup")


def _class_name(field: str, name: str) -> Errors:
    yield from spelled(field, name, names.dns_subdomain(name))
