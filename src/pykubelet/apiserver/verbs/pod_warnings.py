"""What a pod that was taken should better not have: fields and labels that are going away, and what hides other things.

In the words of the Kubernetes API server, which people know and tools look for.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pykubelet.api.quantity import parse
from pykubelet.apiserver.objects import Object, at

_OLD_LABELS: Final = {
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
}
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_OLD_VOLUMES: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
}
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF: Final = "container.seccomp.security.alpha.kubernetes.io/"
_NO_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NOBODY: Final = "a null labelSelector results in matching no pod"

_Each = tuple[str, dict[str, Any]]
"""A part of the pod, with its path."""


def pod_warnings(pod: Object) -> Iterator[str]:
    spec, notes = pod["spec"], at(pod, "metadata.annotations", {})
    containers = [*_each(spec, "initContainers", "containers", "ephemeralContainers")]
    yield from _label_warnings(spec)
    yield from _affinity_warnings(spec.get("affinity") or {})
    yield from (f"metadata.annotations[{key}]: {_OLD_ANNOTATIONS[key]}" for key in _OLD_ANNOTATIONS if key in notes)
    for path, volume in _each(spec, "volumes"):
        yield from (f"{path}.{kind}: {why}" for kind, why in _OLD_VOLUMES.items() if kind in volume)
        if not all(at(volume, "projected.sources", ())):
            yield f"volume {_quoted(volume['name'])} (Projected) has no sources provided"
    yield from _repeated(_each(spec, "hostAliases"), "ip")
    yield from _repeated(_each(spec, "imagePullSecrets"), "name")
    for path, secret in _each(spec, "imagePullSecrets"):
        if not secret.get("name"):
            yield f'{path}.name: invalid empty name ""'
    if _SECCOMP in notes and not at(spec, "securityContext.seccompProfile"):
        yield f"metadata.annotations[{_SECCOMP}]: {_NO_SECCOMP}"
    yield from _fractions("spec.overhead", spec.get("overhead") or {})
    for path, container in containers:
        key = _SECCOMP_OF + container["name"]
        if key in notes and not at(container, "securityContext.seccompProfile"):
            yield f"metadata.annotations[{key}]: {_NO_SECCOMP}"
        for part in ("limits", "requests"):
            yield from _fractions(f"{path}.resources.{part}", at(container, f"resources.{part}", {}))
        yield from _hidden_variables(path, container.get("env") or ())
    yield from _port_warnings(containers)


def _label_warnings(spec: dict[str, Any]) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"spec.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for path, rule in _each(spec, "topologySpreadConstraints"):
        key = rule.get("topologyKey", "")
        if key in _OLD_LABELS:
            yield f"{path}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if rule.get("labelSelector") is None:
            yield f"{path}.labelSelector: {_NOBODY}"


def _affinity_warnings(affinity: dict[str, Any]) -> Iterator[str]:
    nodes, where = affinity.get("nodeAffinity") or {}, "spec.affinity.nodeAffinity."
    terms = [*_each(nodes.get(_REQUIRED) or {}, "nodeSelectorTerms", at=f"{where}{_REQUIRED}.")]
    terms += [(f"{path}.preference", each.get("preference") or {}) for path, each in _each(nodes, _PREFERRED, at=where)]
    for path, term in terms:
        for inside, rule in _each(term, "matchExpressions", at=f"{path}."):
            key = rule.get("key", "")
            if key in _OLD_LABELS:
                yield f"{inside}.key: {key} is {_OLD_LABELS[key]}"
    for kind in ("podAffinity", "podAntiAffinity"):
        pods, where = affinity.get(kind) or {}, f"spec.affinity.{kind}."
        near = [*_each(pods, _REQUIRED, at=where)]
        wished = _each(pods, _PREFERRED, at=where)
        near += [(f"{path}.podAffinityTerm", each.get("podAffinityTerm") or {}) for path, each in wished]
        yield from (f"{path}.labelSelector: {_NOBODY}" for path, term in near if term.get("labelSelector") is None)


def _repeated(parts: Iterable[_Each], key: str) -> Iterator[str]:
    seen = set()
    for path, each in parts:
        value = each.get(key, "")
        if value in seen:
            yield f"{path}.{key}: duplicate {key} {_quoted(value)}"
        seen.add(value)


def _fractions(path: str, amounts: dict[str, Any]) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        if name in amounts and parse(str(amounts[name])).nanos % 1_000_000_000:
            yield f"{path}[{name}]: fractional byte value {_quoted(amounts[name])} is invalid, must be an integer"


def _hidden_variables(path: str, variables: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A later one may add to an earlier one of its name, and otherwise hides it."""
    seen = set()
    for index, each in enumerate(variables):
        name, value = each["name"], each.get("value") or ""
        ref = f"$({name})"
        if name in seen and (each.get("valueFrom") or value == ref or ref not in value):
            words = "which may be dropped when using apply"
            yield f"{path}.env[{index}]: hides previous definition of {_quoted(name)}, {words}"
        seen.add(name)


def _port_warnings(containers: Iterable[_Each]) -> Iterator[str]:
    """Each port is held against the first of its number alone: there may be very many."""
    numbers: dict[tuple[Any, Any], _Each] = {}
    names: dict[str, str] = {}
    for path, port in (each for where, container in containers for each in _each(container, "ports", at=f"{where}.")):
        other, first = numbers.setdefault((port.get("containerPort"), port.get("protocol")), (path, port))
        if other != path:
            here, there = _host(port), _host(first)
            if here == there:
                yield f"{path}: duplicate port definition with {other}"
            elif not here[1] or not there[1]:
                yield f"{path}: overlapping port definition with {other}"
            elif here[1] == there[1] and (not here[0] or not there[0]):
                yield f"{path}: dangerously ambiguous port definition with {other}"
        name = port.get("name") or ""
        if name and (used := names.setdefault(name, path)) != path:
            words = f"services and probes that select ports by name will use {used}"
            yield f"{path}: duplicate port name {_quoted(name)} with {used}, {words}"


def _host(port: dict[str, Any]) -> tuple[str, int]:
    return port.get("hostIP") or "", port.get("hostPort") or 0


def _each(owner: dict[str, Any], *names: str, at: str = "spec.") -> Iterator[_Each]:
    for name in names:
        for index, each in enumerate(owner.get(name) or ()):
            yield f"{at}{name}[{index}]", each


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)
