"""What a CustomResourceDefinition has to fulfil, beside its schemas being structural."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from pykubelet.api.validation import names
from pykubelet.apiserver.cel.formats import is_url
from pykubelet.apiserver.custom.field_paths import BadPath, steps
from pykubelet.apiserver.custom.json_paths import BadJsonPath, parsed
from pykubelet.apiserver.custom.naming import APPROVAL, is_protected
from pykubelet.apiserver.custom.rule_checks import rules_faults
from pykubelet.apiserver.custom.structural import default_faults, patterns_are_too_heavy, structural_faults

Definition = Mapping[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEWS: Final = ("v1", "v1beta1")
_SELECTABLE: Final = ("string", "boolean", "integer")
_MOST_SELECTABLE: Final = 8
_AT_ROOT: Final = (
    "description", "example", "exclusiveMaximum", "exclusiveMinimum", "externalDocs", "format", "items", "maxItems",
    "maxLength", "maximum", "minItems", "minLength", "minimum", "multipleOf", "pattern", "properties", "required",
    "title", "type", "uniqueItems", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
)  # fmt: skip
"""What a schema may say at its root when the status is written on its own."""


def definition_faults(spec: Definition) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group", "")
    elif faults := list(names.dns_subdomain(group)):
        yield invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES) if scope else required("spec.scope", "")
    if spec.get("preserveUnknownFields"):
        said = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, said)
    yield from _names_faults(spec.get("names") or {})
    versions = spec.get("versions") or []
    if len({each.get("name") for each in versions}) < len(versions):
        yield invalid("spec.versions", None, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield invalid("spec.versions", None, "must have exactly one version marked as storage version")
    if patterns_are_too_heavy((each.get("schema") or {}).get("openAPIV3Schema") or {} for each in versions):
        yield forbidden("spec.versions", "its patterns are together too large to be checked")
        return
    for index, version in enumerate(versions):
        yield from _version_faults(version, f"spec.versions[{index}]")
    yield from _conversion_faults(spec.get("conversion") or {})


def _names_faults(given: Mapping[str, Any]) -> Iterator[FieldError]:
    for word in ("plural", "singular", "kind", "listKind"):
        text = given.get(word) or ""
        if not text:
            yield required(f"spec.names.{word}", "")
        elif faults := names.dns_1035_label(text.lower() if word.lower().endswith("kind") else text):
            yield invalid(f"spec.names.{word}", text, ",".join(faults))
    for word in ("shortNames", "categories"):
        for index, text in enumerate(given.get(word) or ()):
            if faults := names.dns_1035_label(text):
                yield invalid(f"spec.names.{word}[{index}]", text, ",".join(faults))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


# --- versions


def _version_faults(version: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name = version.get("name") or ""
    if faults := names.dns_1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(faults))
    yield from _deprecation_faults(version, path)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from _schema_faults(schema, f"{path}.schema.openAPIV3Schema", has_status="status" in subresources)
    yield from _scale_faults(subresources.get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_faults(column, f"{path}.additionalPrinterColumns[{index}]")
    yield from _selectable_faults(version.get("selectableFields") or (), schema or {}, f"{path}.selectableFields")


def _deprecation_faults(version: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    place = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid(place, warning, "can only be set for deprecated versions")
    if len(warning) > 256:
        yield invalid(place, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid(place, warning, "must not be an empty string")
    if not warning.isprintable():
        yield invalid(place, warning, "must only contain printable UTF-8 characters")


def _schema_faults(schema: Mapping[str, Any], path: str, *, has_status: bool) -> Iterator[FieldError]:
    if has_status:
        more = [word for word, value in schema.items() if word not in _AT_ROOT and value not in (None, False, {}, [])]
        if more:
            said = "are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, more[0], f"only {', '.join(_AT_ROOT)} {said}")
    faults = list(structural_faults(schema, path))
    if not faults:
        faults += rules_faults(schema, path)
    if not faults:
        faults += default_faults(schema, path)
    yield from faults


def _scale_faults(scale: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for word, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status."), ("labelSelectorPath", "")):
        text = scale.get(word) or ""
        place = f"{path}.{word}"
        if not text:
            if root:
                yield required(place, "")
            continue
        if not re.fullmatch(r"(\.[^.\[\]{}]+)+", text):
            yield invalid(place, text, "should be a json path of the form .a.b, without array notation")
        elif not text.startswith(root or (".spec.", ".status.")):
            yield invalid(place, text, f"should be a json path under {root.rstrip('.') or 'either .spec or .status'}")


def _column_faults(column: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name", "")
    kind, form, text = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    said = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", said)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, said)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not text:
        yield required(f"{path}.jsonPath", "")
        return
    try:
        parsed(text)
    except BadJsonPath as error:
        yield invalid(f"{path}.jsonPath", text, f"is an invalid path: {error}")


def _selectable_faults(
    fields: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], path: str
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield required(place, "")
            continue
        try:
            way = steps(text, schema, has_brackets=False)
        except BadPath as error:
            yield invalid(place, text, f"is an invalid path: {error}")
            continue
        if way[0][0] == "metadata":
            yield invalid(place, text, "must not point to fields in metadata")
        if way[-1][2].get("type") not in _SELECTABLE:
            said = "must point to a field of type string, boolean or integer"
            yield invalid(place, text, f"{said}. Enum string fields and strings with formats are allowed.")
        if text in seen:
            yield duplicate(place, text)
        seen.add(text)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, _MOST_SELECTABLE, len(seen))


# --- conversion


def _conversion_faults(conversion: Mapping[str, Any]) -> Iterator[FieldError]:
    path, strategy, webhook = "spec.conversion", conversion.get("strategy") or "None", conversion.get("webhook")
    if strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        if webhook is not None:
            yield forbidden(f"{path}.webhook", "should not be set when strategy is not set to Webhook")
        return
    config = (webhook or {}).get("clientConfig")
    if config is None:
        yield required(f"{path}.webhook.clientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config_faults(config, f"{path}.webhook.clientConfig")
    versions, place = (webhook or {}).get("conversionReviewVersions") or [], f"{path}.webhook.conversionReviewVersions"
    if not versions:
        yield required(place, "")
    elif not any(each in _REVIEWS for each in versions):
        yield invalid(place, versions, f"must include at least one of {', '.join(_REVIEWS)}")
    for index, each in enumerate(versions):
        if each in versions[:index]:
            yield invalid(f"{place}[{index}]", each, "duplicate version")
        for fault in names.dns_1035_label(each):
            yield invalid(f"{place}[{index}]", each, fault)


def client_config_faults(config: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Of whom a server calls: a URL or a service, with https."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        if not is_url(url) or not url.startswith("https://"):
            yield invalid(
                f"{path}.url", url, "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            )
        elif "#" in url or "?" in url or "@" in url.partition("://")[2].partition("/")[0]:
            yield invalid(f"{path}.url", url, "fragments, query parameters and user information are not permitted")
    elif service is not None:
        for word in ("name", "namespace"):
            if not service.get(word):
                yield required(f"{path}.service.{word}", f"service {word} is required")
        port = service.get("port", 443)
        if not isinstance(port, int) or not 0 < port < 65536:
            yield invalid(f"{path}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")
        way = service.get("path") or ""
        if way and not way.startswith("/"):
            yield invalid(f"{path}.service.path", way, "must start with a '/'")


# --- over time


def status_faults(obj: Definition) -> Iterator[FieldError]:
    """Versions that objects may still be stored in have to stay."""
    stored = (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield invalid("status.storedVersions", stored, "must have at least one stored version")
        return
    versions = {each.get("name"): each for each in obj["spec"].get("versions") or ()}
    for name, each in versions.items():
        if each.get("storage") and name not in stored:
            yield invalid("status.storedVersions", stored, f"must have the storage version {name}")
    for index, name in enumerate(stored):
        if name not in versions:
            said = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", name, said)


def approval_faults(obj: Definition) -> Iterator[FieldError]:
    """Groups of Kubernetes' own need a word of whoever has approved them."""
    group = obj["spec"].get("group") or ""
    if not is_protected(group):
        return
    given = (obj["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    place = f"metadata.annotations[{APPROVAL}]"
    if not given:
        yield required(place, "protected groups must have approval annotation, see kubernetes/enhancements/pull/1111")
    elif not given.startswith("unapproved") and not is_url(given):
        yield invalid(place, given, 'must be either a URL to the approval or a text that begins with "unapproved"')


def change_faults(spec: Definition, old: Definition, *, is_established: bool) -> Iterator[FieldError]:
    fixed = ["group", "names.plural", *(["scope", "names.kind"] if is_established else [])]
    for path in fixed:
        word, _, inner = path.partition(".")
        new, before = spec.get(word), old.get(word)
        if inner:
            new, before = (new or {}).get(inner), (before or {}).get(inner)
        if new != before:
            yield invalid(f"spec.{path}", new, "field is immutable")
