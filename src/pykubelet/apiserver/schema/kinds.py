"""The kinds that the API server serves, and what a client may do with each.

Discovery and OpenAPI are made of this table, and the routes of the server as well. A kind with a Struct is decoded to
be defaulted and validated; one without is stored as it comes, as far as it fits what `type_text` says of it.
"""

from typing import Final, TypeAlias

import msgspec

from pykubelet.api.node import Node
from pykubelet.api.objects import ConfigMap, Event, Lease, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import Struct

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CHANGING: Final = ("get", "patch", "update")
_PROXY: Final = ("create", "delete", "get", "patch", "update")
_STREAM: Final = ("create", "get")
_CREATE: Final = ("create",)
_READ: Final = ("get", "list")

StructType: TypeAlias = type[Struct]


class Subresource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""  # of the kind, where it is not that of the resource
    version: str = ""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    group: str = ""
    version: str = "v1"
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    type: StructType | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_stored: bool = True  # else it is a question, answered and forgotten, or made up when it is asked for

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def subresource(self, name: str) -> Subresource | None:
        return next((each for each in self.subresources if each.name == name), None)


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _CHANGING)


_PODS: Final = Resource(
    kind="Pod",
    plural="pods",
    singular="pod",
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
    Resource(kind="Binding", plural="bindings", singular="binding", verbs=_CREATE, is_stored=False),
    Resource(
        kind="ComponentStatus",
        plural="componentstatuses",
        singular="componentstatus",
        namespaced=False,
        verbs=_READ,
        short_names=("cs",),
        is_stored=False,
    ),
    Resource(kind="ConfigMap", plural="configmaps", singular="configmap", type=ConfigMap, short_names=("cm",)),
    Resource(kind="Endpoints", plural="endpoints", singular="endpoints", short_names=("ep",)),
    Resource(kind="Event", plural="events", singular="event", type=Event, short_names=("ev",)),
    Resource(kind="LimitRange", plural="limitranges", singular="limitrange", short_names=("limits",)),
    Resource(
        kind="Namespace",
        plural="namespaces",
        singular="namespace",
        namespaced=False,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        short_names=("ns",),
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    ),
    Resource(
        kind="Node",
        plural="nodes",
        singular="node",
        namespaced=False,
        type=Node,
        short_names=("no",),
        subresources=(Subresource("proxy", "NodeProxyOptions", _PROXY), _status("Node")),
    ),
    Resource(
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        singular="persistentvolumeclaim",
        short_names=("pvc",),
        subresources=(_status("PersistentVolumeClaim"),),
    ),
    Resource(
        kind="PersistentVolume",
        plural="persistentvolumes",
        singular="persistentvolume",
        namespaced=False,
        short_names=("pv",),
        subresources=(_status("PersistentVolume"),),
    ),
    _PODS,
    Resource(
        kind="ResourceQuota",
        plural="resourcequotas",
        singular="resourcequota",
        short_names=("quota",),
        subresources=(_status("ResourceQuota"),),
    ),
    Resource(kind="Secret", plural="secrets", singular="secret", type=Secret),
    Resource(
        kind="ServiceAccount",
        plural="serviceaccounts",
        singular="serviceaccount",
        short_names=("sa",),
        subresources=(Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),),
    ),
    Resource(
        kind="Service",
        plural="services",
        singular="service",
        short_names=("svc",),
        categories=("all",),
        subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY), _status("Service")),
    ),
)


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=group,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        verbs=_CREATE,
        is_stored=False,
    )


_GROUPS: Final = (
    Resource(group="events.k8s.io", kind="Event", plural="events", singular="event", short_names=("ev",)),
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authentication.k8s.io", "TokenReview"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
    Resource(
        group="certificates.k8s.io",
        kind="CertificateSigningRequest",
        plural="certificatesigningrequests",
        singular="certificatesigningrequest",
        namespaced=False,
        short_names=("csr",),
        subresources=(
            Subresource("approval", "CertificateSigningRequest", _CHANGING),
            _status("CertificateSigningRequest"),
        ),
    ),
    Resource(
        group="storage.k8s.io",
        kind="StorageClass",
        plural="storageclasses",
        singular="storageclass",
        namespaced=False,
        short_names=("sc",),
    ),
    Resource(
        group="scheduling.k8s.io",
        kind="PriorityClass",
        plural="priorityclasses",
        singular="priorityclass",
        namespaced=False,
        short_names=("pc",),
    ),
    Resource(group="coordination.k8s.io", kind="Lease", plural="leases", singular="lease", type=Lease),
    Resource(
        group="node.k8s.io",
        kind="RuntimeClass",
        plural="runtimeclasses",
        singular="runtimeclass",
        namespaced=False,
    ),
    Resource(group="discovery.k8s.io", kind="EndpointSlice", plural="endpointslices", singular="endpointslice"),
    Resource(
        group="metrics.k8s.io",
        version="v1beta1",
        kind="NodeMetrics",
        plural="nodes",
        singular="",
        namespaced=False,
        verbs=_READ,
        is_stored=False,
    ),
    Resource(
        group="metrics.k8s.io",
        version="v1beta1",
        kind="PodMetrics",
        plural="pods",
        singular="",
        verbs=_READ,
        is_stored=False,
    ),
)

RESOURCES: Final[tuple[Resource, ...]] = (*_CORE, *_GROUPS)
