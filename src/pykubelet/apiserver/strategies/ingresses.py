"""Ingresses: which host and path leads to which service."""

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed, needed_one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_WILDCARD: Final = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if at(obj, "spec.ingressClassName") and _CLASS_ANNOTATION in at(obj, "metadata.annotations", {}):
            field = f"annotations.{_CLASS_ANNOTATION}"
            yield invalid(field, "", "can not be set when the class field is also set")

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        default, rules = spec.get("defaultBackend"), spec.get("rules") or []
        if default is None and not rules:
            yield invalid("spec", "", "either `defaultBackend` or `rules` must be specified")
        if default is not None:
            yield from _backend_faults(default, "spec.defaultBackend")
        for index, rule in enumerate(rules):
            yield from _host_faults(rule.get("host", ""), f"spec.rules[{index}].host")
            yield from _path_faults(rule.get("http"), f"spec.rules[{index}].http")
        for index, each in enumerate(spec.get("tls") or ()):
            for number, host in enumerate(each.get("hosts") or ()):
                yield from _name_faults(host, f"spec.tls[{index}].hosts[{number}]")
        if name := spec.get("ingressClassName"):
            yield from spelled("spec.ingressClassName", name, names.dns_subdomain(name))


def _host_faults(host: str, field: str) -> Iterator[FieldError]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        yield from _name_faults(host, field) if host else ()
    else:
        yield invalid(field, host, "must be a DNS name, not an IP address")


def _name_faults(host: str, field: str) -> Iterator[FieldError]:
    if "*" not in host:
        yield from spelled(field, host, names.dns_subdomain(host))
    elif not _WILDCARD.fullmatch(host):
        yield invalid(field, host, "must be a DNS name with a wildcard as its first part, such as *.example.com")


def _path_faults(http: dict[str, Any] | None, place: str) -> Iterator[FieldError]:
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{place}.paths", "")
    for index, each in enumerate(http.get("paths") or ()):
        field, path, kind = f"{place}.paths[{index}]", each.get("path", ""), each.get("pathType", "")
        yield from needed_one_of(f"{field}.pathType", kind, _PATH_TYPES)
        if not path.startswith("/") and (path or kind in ("Exact", "Prefix")):
            yield invalid(f"{field}.path", path, "must be an absolute path")
        if kind in ("Exact", "Prefix"):
            for part in (*(each for each in _BAD_PARTS if each in path), *(e for e in _BAD_ENDS if path.endswith(e))):
                yield invalid(f"{field}.path", path, f"must not contain or end with '{part}'")
        yield from _backend_faults(each.get("backend") or {}, f"{field}.backend")


def _backend_faults(backend: dict[str, Any], field: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from needed(f"{field}.resource.name", resource.get("name", ""), lambda text: ())
        yield from needed(f"{field}.resource.kind", resource.get("kind", ""), lambda text: ())
    elif service is None:
        yield invalid(field, "", "resource or service backend is required")
    else:
        yield from needed(f"{field}.service.name", service.get("name", ""), names.dns_label)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            yield invalid(field, "", "cannot set both port name & port number")
        elif port.get("name"):
            yield from spelled(f"{field}.service.port.name", port["name"], names.dns_label(port["name"]))
        elif port.get("number"):
            yield from spelled(f"{field}.service.port.number", port["number"], names.port_number(port["number"]))
        else:
            yield required(field, "port name or number is required")


class IngressClassStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        if (given := at(result, "spec.parameters")) is not None:
            given.setdefault("scope", "Cluster")
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        if len(controller := spec.get("controller", "")) > 250:
            yield invalid("spec.controller", controller, "may not be more than 250 bytes")
        yield from needed("spec.controller", controller, _domain_path)
        if (given := spec.get("parameters")) is None:
            return
        if group := given.get("apiGroup"):
            yield from spelled("spec.parameters.apiGroup", group, names.dns_subdomain(group))
        for name in ("kind", "name"):
            if not given.get(name):
                yield required(f"spec.parameters.{name}", "")
        scope, namespace = given.get("scope"), given.get("namespace")
        yield from needed_one_of("spec.parameters.scope", scope or "", ("Cluster", "Namespace"))
        if scope == "Namespace" and not namespace:
            yield required("spec.parameters.namespace", "`parameters.scope` is set to 'Namespace'")
        if scope == "Cluster" and namespace is not None:
            yield forbidden("spec.parameters.namespace", "`parameters.scope` is set to 'Cluster'")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if at(obj, "spec.controller") != at(old, "spec.controller"):
            yield invalid("spec.controller", at(obj, "spec.controller"), "field is immutable")


def _domain_path(text: str) -> names.Faults:
    domain, slash, path = text.partition("/")
    if not slash or not path:
        return ["must be a domain and a path, such as example.com/controller"]
    return names.dns_subdomain(domain)
