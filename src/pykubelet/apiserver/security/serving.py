"""TLS of the API server: which names its certificate has, and how it comes to kubelets."""

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.own_addresses import own_addresses
from pykubelet.web.tls import ServingTls
from pykubelet.web.unverified import unverified_context

_LOOK_AGAIN: Final = 60.0
_SERVICE: Final = "kubernetes"


def serving_hosts(extra: Sequence[str] = ()) -> list[str]:
    """Whatever a client may call us by: this machine, and the service that pods find."""
    names = [f"{_SERVICE}{end}" for end in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
    machine = [each for each in (socket.gethostname(),) if _is_host(each)]
    found = ["localhost", "127.0.0.1", "::1", *names, *machine, *own_addresses(), *extra]
    return list(dict.fromkeys(found))


def apiserver_tls(pki: Pki, hosts: Callable[[], Sequence[str]], *, look_again: float = _LOOK_AGAIN) -> ServingTls:
    """`hosts`: the names of the server; asked each time, for a machine may get another address."""
    return ServingTls(lambda: pki.serving(hosts()), pki.authority_file, look_again=look_again)


def kubelet_context(pki: Pki, *, insecure: bool = False) -> ssl.SSLContext:
    """For connections to kubelets: with our certificate, and theirs has to be of our authority unless `insecure`."""
    context = unverified_context() if insecure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not insecure:
        context.load_verify_locations(cadata=pki.authority.pem.decode())
    context.load_cert_chain(*pki.kubelet_client())
    return context


def front_proxy_context(pki: Pki, authorities: bytes, insecure: bool) -> ssl.SSLContext:
    """For connections to other API servers: with our front-proxy certificate, and theirs has to be of `authorities`
    (empty: of those that this machine trusts) unless `insecure`. Raises ValueError for what is no certificate."""
    try:
        given = authorities.decode("ascii") if authorities else None
        context = unverified_context() if insecure else ssl.create_default_context(cadata=given)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"its caBundle cannot be read: {error}") from None
    context.load_cert_chain(*pki.front_proxy())
    return context


def _is_host(name: str) -> bool:
    return bool(name) and name.isascii() and len(name) < 254 and ":" not in name
