"""Bindings of roles, in a namespace and in the cluster: to whom they give one role, which is chosen once."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.roles import path_segment_faults

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


class RoleBindingStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        role = result.get("roleRef")
        if isinstance(role, dict) and not role.get("apiGroup"):
            role["apiGroup"] = _GROUP
        for subject in result.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _GROUP
        return result

    def name_faults(self, name: str) -> Iterable[str]:
        return path_segment_faults(name)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        role = obj.get("roleRef") or {}
        if role.get("apiGroup") != _GROUP:
            yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_GROUP,))
        kinds = ("Role", "ClusterRole") if self.resource.namespaced else ("ClusterRole",)
        if role.get("kind") not in kinds:
            yield not_supported("roleRef.kind", role.get("kind", ""), kinds)
        name = role.get("name", "")
        if not name:
            yield required("roleRef.name")
        for fault in path_segment_faults(name):
            yield invalid("roleRef.name", name, fault)
        for number, subject in enumerate(obj.get("subjects") or ()):
            yield from _subject_faults(subject, f"subjects[{number}]", self.resource.namespaced)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj.get("roleRef") != old.get("roleRef"):
            role = obj.get("roleRef") or {}
            shown = {name: role.get(name[0].lower() + name[1:], "") for name in ("Kind", "Name")}
            yield invalid("roleRef", {"APIGroup": role.get("apiGroup", ""), **shown}, "cannot change roleRef")


def _subject_faults(subject: dict[str, Any], path: str, namespaced: bool) -> Iterator[FieldError]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        for fault in names.dns_subdomain(name) if name else ():
            yield invalid(f"{path}.name", name, fault)
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in _SUBJECTS:
        if group != _GROUP:
            yield not_supported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
