"""TLS of the API server: which names its certificate has, and a context that always uses the newest one."""

import asyncio
import asyncio.sslproto
import ipaddress
import itertools
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.errors import PykubeletError

log = logging.getLogger(__name__)

SERVICE_IP: Final = "10.96.0.1"
_LOOK_AGAIN: Final = 60.0
_CONNECTION_BUFFER: Final = 8 * 1024
_SERVICE: Final = "kubernetes"


def serving_hosts(
    extra: Sequence[str] = (), *, service_ip: str = SERVICE_IP, domain: str = "cluster.local"
) -> list[str]:
    """Whatever a client may call us by: this machine, and the service that pods find."""
    names = [f"{_SERVICE}{end}" for end in ("", ".default", ".default.svc", f".default.svc.{domain}")]
    machine = [each for each in (socket.gethostname(),) if _is_host(each)]
    found = ["localhost", "127.0.0.1", "::1", service_ip, *names, *machine, *_addresses(), *extra]
    return list(dict.fromkeys(found))


class ServingTls:
    """`context()` is for the listener; `run()` renews the certificate in time, until cancelled."""

    def __init__(self, pki: Pki, hosts: Callable[[], Sequence[str]], *, look_again: float = _LOOK_AGAIN) -> None:
        """`hosts`: the names of the server; asked each time, for a machine may get another address."""
        self._pki = pki
        self._hosts = hosts
        self._look_again = look_again
        self._current: ssl.SSLContext | None = None
        self._made_from = b""

    def context(self) -> ssl.SSLContext:
        """For as long as the server runs: every handshake is handed on to the newest certificate."""
        # asyncio keeps a buffer of this size for each connection, 256 KiB unless told otherwise: of a thousand watchers
        # hardly one ever says anything.
        asyncio.sslproto.SSLProtocol.max_size = _CONNECTION_BUFFER
        self._renew()
        front = self._bare()
        front.sni_callback = self._hand_on
        return front

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._look_again)
            try:
                await asyncio.to_thread(self._renew)
            except PykubeletError as error:
                log.warning("the former serving certificate stays in force: %s", error)

    def _renew(self) -> None:
        certificate, key = self._pki.serving(self._hosts())
        data = certificate.read_bytes()
        if self._current is None or data != self._made_from:
            context = self._bare()
            context.load_cert_chain(certificate, key)
            self._current, self._made_from = context, data

    def _hand_on(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        tls.context = self._current
        return None

    def _bare(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self._pki.authority.pem.decode())
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session would bring its client certificate along without anybody looking at it again.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        return context


def kubelet_context(pki: Pki, *, insecure: bool = False) -> ssl.SSLContext:
    """For connections to kubelets: with our certificate, and theirs has to be of our authority unless `insecure`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=pki.authority.pem.decode())
    context.load_cert_chain(*_paths(pki.kubelet_client()))
    return context


def _paths(pair: tuple[Path, Path]) -> tuple[str, str]:
    return str(pair[0]), str(pair[1])


def _addresses() -> list[str]:
    """Of this machine's interfaces, as the kernel lists them; nobody is asked over the network."""
    found: list[str] = []
    lines = _lines("/proc/net/fib_trie")
    found += [
        line.split()[-1] for line, after in itertools.pairwise(lines) if "|--" in line and "/32 host LOCAL" in after
    ]
    found += [str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in _lines("/proc/net/if_inet6")]
    return [each for each in dict.fromkeys(found) if not ipaddress.ip_address(each).is_link_local]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []  # not every kernel has every family


def _is_host(name: str) -> bool:
    return bool(name) and name.isascii() and len(name) < 254 and ":" not in name
