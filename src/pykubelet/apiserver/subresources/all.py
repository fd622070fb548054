"""Every subresource and every kind that is answered but not stored, in one list."""

from collections.abc import Mapping
from typing import Final, Protocol

from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.requests.media_types import JSON
from pykubelet.apiserver.security.addresses import ClusterAddresses
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.security.serving import kubelet_context
from pykubelet.apiserver.security.tokens import DISCOVERY_PATH, JWKS_PATH
from pykubelet.apiserver.subresources.kubelet_proxy import KubeletProxy
from pykubelet.apiserver.subresources.metrics import Metrics
from pykubelet.apiserver.subresources.reviews import AUTHENTICATION, AUTHORIZATION, Reviews
from pykubelet.apiserver.subresources.targets import Targets
from pykubelet.apiserver.subresources.token import token_requests
from pykubelet.apiserver.verbs.handlers import Connect, Verb


class HandlerTable(Protocol):
    def answer(self, group: str, plural: str, subresource: str, verb: Verb) -> None: ...

    def connect(self, group: str, plural: str, subresource: str, handler: Connect) -> None: ...

    def publish(self, path: str, content_type: str, content: bytes) -> None: ...


def register_all(
    server: HandlerTable,
    access: ClusterAccess,
    pki: Pki,
    addresses: ClusterAddresses,
    *,
    found_at: str,
    insecure_kubelets: bool = False,
) -> Metrics:
    """`found_at`: host and port where others find this server; `insecure_kubelets`: the serving certificates of
    kubelets are not verified. -> for those who want to know from inside what pods use"""
    server.publish(DISCOVERY_PATH, JSON, encode(access.tokens.discovery(found_at)))
    server.publish(JWKS_PATH, "application/jwk-set+json", encode(access.tokens.keys()))
    for (group, plural), verb in _reviews(access).items():
        server.answer(group, plural, "", verb)
    server.answer("", "serviceaccounts", "token", token_requests(access.tokens))
    proxy = KubeletProxy(
        lambda insecure: kubelet_context(pki, insecure=insecure), Targets(addresses), insecure=insecure_kubelets
    )
    for (group, plural, part), handler in proxy.connections().items():
        server.connect(group, plural, part, handler)
    metrics = Metrics(proxy.text)
    for (group, plural), verb in metrics.verbs().items():
        server.answer(group, plural, "", verb)
    return metrics


def _reviews(access: ClusterAccess) -> Mapping[tuple[str, str], Verb]:
    reviews: Final = Reviews(access)
    return {
        (AUTHENTICATION, "tokenreviews"): reviews.token,
        (AUTHENTICATION, "selfsubjectreviews"): reviews.myself,
        (AUTHORIZATION, "subjectaccessreviews"): reviews.access,
        (AUTHORIZATION, "localsubjectaccessreviews"): reviews.local_access,
        (AUTHORIZATION, "selfsubjectaccessreviews"): reviews.own_access,
        (AUTHORIZATION, "selfsubjectrulesreviews"): reviews.own_rules,
    }
