"""Configurations of admission webhooks: whom to ask about which writes, and what to do when nobody answers."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pykubelet.api.base64_text import canonical_bytes
from pykubelet.api.field_errors import FieldError, duplicate, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.admission_rules import condition_faults, rule_faults, selector_faults
from pykubelet.apiserver.strategies.base import Strategy

_VERSIONS: Final = ("v1", "v1beta1")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_FORM: Final = "; desired format: https://host[/path]"


class WebhookConfigurationStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        mutates = self.resource.kind == "MutatingWebhookConfiguration"
        for hook in result.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if mutates:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            client = hook.get("clientConfig") or {}
            if "caBundle" in client:
                client["caBundle"] = canonical_bytes(client["caBundle"], "caBundle")
            if isinstance(service := client.get("service"), dict):
                service.setdefault("port", 443)
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        seen: set[str] = set()
        for number, hook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{number}]"
            yield from _hook_faults(hook, path)
            yield from _version_faults(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
            name = hook.get("name", "")
            if name and name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)


def _hook_faults(hook: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from _name_faults(hook.get("name", ""), f"{path}.name")
    for number, rule in enumerate(hook.get("rules") or ()):
        yield from rule_faults(rule, f"{path}.rules[{number}]")
    for field, supported in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        if hook.get(field) not in (None, *supported):
            yield not_supported(f"{path}.{field}", hook[field], supported)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        yield not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        yield invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_faults(hook.get(field), f"{path}.{field}")
    yield from _client_faults(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from condition_faults(hook.get("matchConditions") or (), f"{path}.matchConditions")


def _name_faults(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
        return
    for fault in names.dns_subdomain(name):
        yield invalid(path, name, fault)
    if len(name.split(".")) < 3:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _version_faults(versions: list[str], path: str) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_VERSIONS)}")
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield invalid(f"{path}[{number}]", version, "duplicate version")
        for fault in names.dns_label(version):
            yield invalid(f"{path}[{number}]", version, fault)
    if not set(versions) & set(_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(_VERSIONS)}")


def _client_faults(client: dict[str, Any], path: str) -> Iterator[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_faults(url, f"{path}.url")
    elif service is not None:
        yield from _service_faults(service, f"{path}.service")


def _url_faults(url: str, path: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield invalid(path, parts.netloc, f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        yield invalid(path, parts.username or "", "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_faults(service: dict[str, Any], path: str) -> Iterator[FieldError]:
    for field, other in (("name", "namespace"), ("namespace", "name")):  # upstream names the one for the other
        if not service.get(other):
            yield required(f"{path}.{field}")
    port = service.get("port", 443)
    for fault in names.port_number(port):
        yield invalid(f"{path}.port", port, f"port is not valid: {fault}, inclusive")
    where = service.get("path") or ""
    if where in ("", "/"):
        return
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must start with a '/'")
    for number, step in enumerate(where[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(f"{path}.path", where, f"segment[{number}] may not be empty")
        for fault in names.dns_subdomain(step) if step else ():
            yield invalid(f"{path}.path", where, f"segment[{number}]: {fault}")
