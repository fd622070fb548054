"""Pod security by the labels of a namespace: what its level forbids is refused, noted in the audit log, or told.

A label that cannot be read counts as the strictest level where it would refuse, and as none where it would only tell.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.admission.hooks import labels_of
from pykubelet.apiserver.admission.pod_security_checks import LATEST, faults
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at, made_of
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.store.port import Entry

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final = ("privileged", "baseline", "restricted")
_ENFORCED: Final = f"{PREFIX}enforce-policy"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)
_UNTOUCHED: Final = ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
"""Parts of pods that change nothing of what is checked."""
_TEMPLATES: Final[Mapping[tuple[str, str], str]] = {
    ("", "podtemplates"): "template",
    ("", "replicationcontrollers"): "spec.template",
    ("apps", "daemonsets"): "spec.template",
    ("apps", "deployments"): "spec.template",
    ("apps", "replicasets"): "spec.template",
    ("apps", "statefulsets"): "spec.template",
    ("batch", "cronjobs"): "spec.jobTemplate.spec.template",
    ("batch", "jobs"): "spec.template",
}
_MOST_PODS: Final = 3000
_SECONDS: Final = 1.0
_AT_ONCE: Final = 100


class Standard(msgspec.Struct, frozen=True):
    """A level, as of a minor version; None: the newest."""

    level: str = "privileged"
    version: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version is None else f'v1.{self.version}'}"

    def faults(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[tuple[str, str]]:
        return faults(self.level, LATEST if self.version is None else self.version, metadata, spec)


class Policy(msgspec.Struct, frozen=True):
    enforce: Standard
    audit: Standard
    warn: Standard

    @property
    def is_free(self) -> bool:
        """Whether everything may be."""
        return self.enforce.level == self.audit.level == self.warn.level == LEVELS[0]


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """-> what holds in a namespace, and what is wrong with its labels"""
    errors: list[FieldError] = []
    found = {mode: _standard(labels, mode, errors) for mode in ("enforce", "audit", "warn")}
    enforced = labels.get(f"{PREFIX}enforce", "")
    if f"{PREFIX}warn" not in labels and enforced in LEVELS and enforced != "privileged":
        version = found["warn" if f"{PREFIX}warn-version" in labels else "enforce"].version
        found["warn"] = Standard(enforced, version)
    return Policy(**found), errors


def _standard(labels: Mapping[str, str], mode: str, errors: list[FieldError]) -> Standard:
    level, version = labels.get(f"{PREFIX}{mode}", "privileged"), labels.get(f"{PREFIX}{mode}-version", "latest")
    if level not in LEVELS:
        where = f"metadata.labels[{PREFIX}{mode}]"
        errors.append(invalid(where, level, f"must be one of {', '.join(LEVELS)}"))
        level = "restricted" if mode == "enforce" else "privileged"
    match = _VERSION.fullmatch(version)
    if match is None and version != "latest":
        where = f"metadata.labels[{PREFIX}{mode}-version]"
        errors.append(invalid(where, version, 'must be "latest" or "v1.x"'))
    return Standard(level, int(match[1]) if match else None)


class PodSecurity:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._prefix = backend.resources.of("", "namespaces").prefix
        self._policies: dict[str, Policy] = {}
        """Of the namespaces that the cache knows."""
        backend.cache.mirror(self._prefix, self._tell)

    def _tell(self, key: str, entry: Entry | None) -> None:
        name = key.removeprefix(self._prefix)
        self._policies.pop(name, None)
        found = made_of(entry, lambda obj: policy_of(labels_of(obj))[0], "who needs it is refused")
        if found is not None:
            self._policies[name] = found

    async def _policy(self, namespace: str) -> Policy:
        """Raises 500 when there is no such namespace."""
        known = self._policies.get(namespace)
        if known is not None:
            return known
        found = await self._backend.find("", "namespaces", "", namespace)
        if found is None:
            raise status.internal(f'failed to lookup namespace "{namespace}"')
        return policy_of(labels_of(found))[0]

    @staticmethod
    def cares_for(resource: Resource) -> bool:
        place = resource.group, resource.plural
        return place in _TEMPLATES or place in (("", "pods"), ("", "namespaces"))

    async def validate(self, attempt: Attempt) -> None:
        """Raises 403, and 422 for labels that cannot be read."""
        if attempt.obj is None:
            return
        place = attempt.resource.group, attempt.resource.plural
        if place == ("", "namespaces"):
            if not attempt.part:
                await self._namespace(attempt)
        elif place == ("", "pods"):
            if attempt.part not in _UNTOUCHED and _is_significant(attempt):
                await self._pod(attempt, attempt.obj, enforces=True)
        elif place in _TEMPLATES and not attempt.part:
            template = at(attempt.obj, _TEMPLATES[place])
            if template is not None:
                await self._pod(attempt, template, enforces=False)

    async def _pod(self, attempt: Attempt, pod: Object, *, enforces: bool) -> None:
        policy = await self._policy(attempt.namespace)
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if enforces:
            attempt.notes[_ENFORCED] = str(policy.enforce)
        if policy.is_free:
            return
        if found := policy.audit.faults(metadata, spec):
            text = f'would violate PodSecurity "{policy.audit}": {_told(found)}'
            attempt.notes[f"{PREFIX}audit-violations"] = text
        if enforces and (found := policy.enforce.faults(metadata, spec)):
            why = f'violates PodSecurity "{policy.enforce}": {_told(found)}'
            raise status.forbidden(attempt.resource.plural, attempt.name, why, attempt.resource.group)
        if found := policy.warn.faults(metadata, spec):
            attempt.warnings.append(f'would violate PodSecurity "{policy.warn}": {_told(found)}')

    async def _namespace(self, attempt: Attempt) -> None:
        policy, errors = policy_of(labels_of(attempt.obj))
        before, known = policy_of(labels_of(attempt.old))
        if errors and errors != known:
            raise status.invalid("Namespace", "", attempt.name, errors)
        new, old = policy.enforce, before.enforce
        is_milder = new.version == old.version and LEVELS.index(new.level) <= LEVELS.index(old.level)
        if attempt.old is not None and new.level != "privileged" and not is_milder:
            attempt.warnings.extend(await self._of_pods_there(attempt.name, new))

    async def _of_pods_there(self, namespace: str, standard: Standard) -> list[str]:
        """What a new level would have forbidden of the pods that are there."""
        pods = await self._backend.known("", "pods", namespace)
        end = asyncio.get_running_loop().time() + _SECONDS
        names: dict[str, list[str]] = {}
        looked_at = 0
        for pod in pods[:_MOST_PODS]:
            looked_at += 1
            if found := standard.faults(pod["metadata"], pod["spec"]):
                names.setdefault(", ".join(reason for reason, _ in found), []).append(pod["metadata"]["name"])
            if looked_at % _AT_ONCE == 0:
                await asyncio.sleep(0)
                if asyncio.get_running_loop().time() > end:
                    break
        said = []
        if looked_at < len(pods):
            which = f"the first {looked_at} of {len(pods)} existing pods"
            said.append(f"new PodSecurity enforce level only checked against {which}")
        if names:
            what = f'violate the new PodSecurity enforce level "{standard}"'
            said.append(f'existing pods in namespace "{namespace}" {what}')
        return said + sorted(f"{_first(found)}: {reason}" for reason, found in names.items())


def _first(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"


def _told(found: list[tuple[str, str]]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)


def _is_significant(attempt: Attempt) -> bool:
    """Whether a pod is new, or has other images or containers than before."""
    return attempt.old is None or _images(attempt.obj or {}) != _images(attempt.old)


def _images(pod: Object) -> list[tuple[str, str, str]]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return [
        (kind, each.get("name", ""), each.get("image", "")) for kind in kinds for each in at(pod, f"spec.{kind}", ())
    ]
