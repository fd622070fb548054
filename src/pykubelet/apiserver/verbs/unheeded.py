"""What is stored and has no effect: whoever writes it is warned, so that nobody waits for it.

One line per wish. When something comes to act on it, its line goes.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from pykubelet.apiserver.objects import Object, at

_UNSIGNED: Final = ("kubernetes.io/legacy-unknown",)


class _Unheeded(Struct, frozen=True):
    resource: str
    sentence: str
    is_meant: Callable[[Object], bool] = lambda obj: True
    subresource: str = ""


def unheeded(resource: str, subresource: str, obj: Object) -> Iterator[str]:
    """What to tell about an object that was written. `resource`: its plural, with its group where it has one."""
    if resource in _RESOURCES:
        for each in _TABLE:
            if (each.resource, each.subresource) == (resource, subresource) and each.is_meant(obj):
                yield each.sentence


def _has_foreign_metrics(obj: Object) -> bool:
    return any(item.get("type") in ("Pods", "Object", "External") for item in at(obj, "spec.metrics", ()))


def _is_unsigned(obj: Object) -> bool:
    return at(obj, "spec.signerName") in _UNSIGNED and not at(obj, "status.certificate")


_TABLE: Final = (
    _Unheeded(
        "horizontalpodautoscalers.autoscaling",
        "metrics of the types Pods, Object and External are stored, but no API that has them is served here",
        _has_foreign_metrics,
    ),
    _Unheeded(
        "networkpolicies.networking.k8s.io",
        "the policy is stored, but nothing here enforces it: that is for a network plug-in that knows policies",
    ),
    _Unheeded(
        "ingresses.networking.k8s.io",
        "the ingress is stored, but nothing here acts on it: that is for an ingress controller",
        lambda obj: not at(obj, "status.loadBalancer.ingress"),
    ),
    _Unheeded(
        "services",
        "nothing here gives load balancers an address: its ClusterIP and node ports answer where services do",
        lambda obj: at(obj, "spec.type") == "LoadBalancer" and not at(obj, "status.loadBalancer.ingress"),
    ),
    _Unheeded(
        "certificatesigningrequests.certificates.k8s.io",
        "the request is stored, but nobody here issues certificates for its signer, approved or not",
        _is_unsigned,
    ),
)
_RESOURCES: Final = frozenset(each.resource for each in _TABLE)
