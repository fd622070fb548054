"""The kinds that the API server serves, and what a client may do with each.

Discovery and OpenAPI are made of this table, and the routes of the server as well. A kind with a Struct is decoded to
be defaulted and validated; one without is stored as it comes, as far as it fits what `type_text` says of it.
"""

from collections.abc import Iterator
from typing import Final

from pykubelet.api.node import Node
from pykubelet.api.objects import ConfigMap, Event, Lease, Secret
from pykubelet.api.pod import Pod
from pykubelet.apiserver.schema.resources import ALL_VERBS, Resource, Subresource

_CHANGING: Final = ("get", "patch", "update")
_PROXY: Final = ("create", "delete", "get", "patch", "update")
_STREAM: Final = ("create", "get")
_CREATE: Final = ("create",)
_READ: Final = ("get", "list")


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _CHANGING)


_PODS: Final = Resource(
    kind="Pod",
    type=Pod,
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", "PodAttachOptions", _STREAM),
        Subresource("binding", "Binding", _CREATE),
        Subresource("ephemeralcontainers", "Pod", _CHANGING),
        Subresource("eviction", "Eviction", _CREATE, "policy", "v1"),
        Subresource("exec", "PodExecOptions", _STREAM),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", _STREAM),
        Subresource("proxy", "PodProxyOptions", _PROXY),
        Subresource("resize", "Pod", _CHANGING),
        _status("Pod"),
    ),
)

_CORE: Final = (
    Resource(kind="Binding", verbs=_CREATE, is_stored=False),
    Resource(kind="ComponentStatus", namespaced=False, verbs=_READ, short_names=("cs",), is_stored=False),
    Resource(kind="ConfigMap", type=ConfigMap, short_names=("cm",)),
    Resource(kind="Endpoints", named="endpoints", short_names=("ep",)),
    Resource(kind="Event", type=Event, short_names=("ev",)),
    Resource(kind="LimitRange", short_names=("limits",)),
    Resource(
        kind="Namespace",
        namespaced=False,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        short_names=("ns",),
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    ),
    Resource(
        kind="Node",
        namespaced=False,
        type=Node,
        short_names=("no",),
        subresources=(Subresource("proxy", "NodeProxyOptions", _PROXY), _status("Node")),
    ),
    Resource(kind="PersistentVolumeClaim", short_names=("pvc",), subresources=(_status("PersistentVolumeClaim"),)),
    Resource(
        kind="PersistentVolume", namespaced=False, short_names=("pv",), subresources=(_status("PersistentVolume"),)
    ),
    _PODS,
    Resource(kind="ResourceQuota", short_names=("quota",), subresources=(_status("ResourceQuota"),)),
    Resource(kind="Secret", type=Secret),
    Resource(
        kind="ServiceAccount",
        short_names=("sa",),
        subresources=(Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),),
    ),
    Resource(
        kind="Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY), _status("Service")),
    ),
)


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group=group, kind=kind, namespaced=namespaced, verbs=_CREATE, is_stored=False)


_GROUPS: Final = (
    Resource(group="events.k8s.io", kind="Event", short_names=("ev",)),
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authentication.k8s.io", "TokenReview"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
    Resource(
        group="certificates.k8s.io",
        kind="CertificateSigningRequest",
        namespaced=False,
        short_names=("csr",),
        subresources=(
            Subresource("approval", "CertificateSigningRequest", _CHANGING),
            _status("CertificateSigningRequest"),
        ),
    ),
    Resource(group="storage.k8s.io", kind="StorageClass", namespaced=False, short_names=("sc",)),
    Resource(group="scheduling.k8s.io", kind="PriorityClass", namespaced=False, short_names=("pc",)),
    Resource(group="coordination.k8s.io", kind="Lease", type=Lease),
    Resource(group="node.k8s.io", kind="RuntimeClass", namespaced=False),
    Resource(group="discovery.k8s.io", kind="EndpointSlice"),
    Resource(
        group="metrics.k8s.io",
        version="v1beta1",
        kind="NodeMetrics",
        named="nodes",
        namespaced=False,
        verbs=_READ,
        is_stored=False,
    ),
    Resource(group="metrics.k8s.io", version="v1beta1", kind="PodMetrics", named="pods", verbs=_READ, is_stored=False),
)

RESOURCES: Final[tuple[Resource, ...]] = (*_CORE, *_GROUPS)
_HIDDEN: Final = (Resource(group="networking.k8s.io", kind="IPAddress", namespaced=False),)
"""Kept for the server's own use, and served to nobody."""


class Resources:
    """Resources by where they are found in a path."""

    def __init__(self) -> None:
        self._by_path = {(each.group, each.version, each.plural): each for each in RESOURCES}
        self._by_name = {(each.group, each.plural): each for each in (*RESOURCES, *_HIDDEN)}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """What a path means; None when there is nothing."""
        return self._by_path.get((group, version, plural))

    def of(self, group: str, plural: str) -> Resource:
        """A resource that is known to be there."""
        return self._by_name[group, plural]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_name.values())
