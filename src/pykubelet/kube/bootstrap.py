"""How a new node becomes known: with a bootstrap kubeconfig it asks for a certificate, and writes itself a kubeconfig.

Whoever holds usable credentials asks for nothing. The key is written down before it is used, and the request is named
by it: an agent that is stopped while it waits finds its request again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.api import codec
from pykubelet.api.rules.well_known import CLIENT_SIGNER
from pykubelet.api.struct import changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry
from pykubelet.kube import kubeconfig
from pykubelet.kube.certificate_store import CLIENT, CertificateStore, parsed_pair
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csr import digested_name, node_template, request_certificate, wait_for_certificate
from pykubelet.kube.kubeconfig import (
    ClientConfig,
    Cluster,
    Context,
    Kubeconfig,
    NamedCluster,
    NamedContext,
    NamedUser,
    User,
)
from pykubelet.kube.settings import ClientSettings
from pykubelet.kube.tls import Pem
from pykubelet.web.key_pairs import key_pem, write_private

log = logging.getLogger(__name__)

_PATIENCE: Final = 3600.0
_SOONEST: Final = 2.0
_LATEST: Final = 30.0
_KEY_FILE: Final = "kubelet-client.key.tmp"


async def bootstrap(settings: ClientSettings, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> bool:
    """Make sure of a usable kubeconfig. -> whether it was written. To be called before it is read.

    Waits for an API server that is not there yet, and for somebody to approve. Raises Invalid when a person has to
    do something else, Retry when nobody approved within an hour.
    """
    made = Path(settings.kubeconfig)
    if await asyncio.to_thread(is_usable, made, now()):
        return False
    config = await asyncio.to_thread(kubeconfig.load, settings.bootstrap_kubeconfig)
    store = CertificateStore(settings.cert_dir, CLIENT, now=now)
    key_file = settings.cert_dir / _KEY_FILE
    key = await asyncio.to_thread(_keep_key, key_file)
    name = digested_name(key, node_template(settings.node_name), CLIENT_SIGNER)
    log.info("asking %s to know this node: certificate signing request %s", config.cluster.server, name)
    try:
        async with asyncio.timeout(_PATIENCE), ApiClient(Credentials(config)) as server:
            certificate = await _certificate(server, settings.node_name, key, name)
    except TimeoutError:
        raise Retry(f"nobody has approved this node within an hour: kubectl certificate approve {name}") from None
    try:
        pair = parsed_pair(certificate, key_pem(key), f"the certificate of {name}")
        if now() >= pair.expires:
            raise Invalid(f"the certificate of {name} has expired at {pair.expires}; start again for another one")
    except Invalid:
        key_file.unlink(missing_ok=True)  # a new key makes a new request
        raise
    await asyncio.to_thread(store.update, certificate, key_pem(key))
    await asyncio.to_thread(_write_kubeconfig, made, config.cluster, store.current_path)
    key_file.unlink(missing_ok=True)
    log.info("this node is known until %s; its kubeconfig is %s", pair.expires, settings.kubeconfig)
    return True


def is_usable(path: Path, now: datetime) -> bool:
    """Whether a kubeconfig can be worked with: it holds a certificate that is valid, or credentials of another kind.

    Those are not ours to judge, and writing over them would be unkind.
    """
    if not path.exists():
        return False
    try:
        user = kubeconfig.load(str(path)).user
        if not (user.client_certificate or user.client_certificate_data):
            return bool(user.token or user.token_file or user.exec or user.username)
        pair = parsed_pair(*_own(user, str(path)), str(path))
    except PykubeletError as error:
        log.warning("the kubeconfig cannot be used, and is made anew: %s", error)
        return False
    if now >= pair.expires:
        log.warning("%s: its certificate has expired at %s; another one is asked for", path, pair.expires)
        return False
    return True


def rotating(config: ClientConfig, store: CertificateStore, now: datetime) -> tuple[ClientConfig, bool]:
    """The same credentials, from the store that rotation writes to, and whether they should be replaced at once.

    A certificate that the kubeconfig holds itself is put into the store first: the file would never change.
    """
    user = config.user
    if not (user.client_certificate or user.client_certificate_data):
        return config, False
    path = str(store.current_path)
    own = changed(user, client_certificate=path, client_key=path, client_certificate_data="", client_key_data="")
    from_store = replace(config, user=own)
    try:
        current = store.current()
    except Invalid as error:
        log.warning("the certificate of the kubeconfig is used: %s", error)
        current = None
    if current is not None and now < current.expires:
        return from_store, False
    store.update(*_own(user, config.origin))
    return from_store, True


async def _certificate(server: ApiClient, node_name: str, key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    backoff = Backoff(_SOONEST, _LATEST, now=asyncio.get_running_loop().time)
    complaint = ""
    while True:
        try:
            request = await request_certificate(server, key, node_template(node_name), CLIENT_SIGNER, name=name)
            return await wait_for_certificate(server, request)
        except (Retry, NotFound, Conflict) as error:
            level = logging.DEBUG if str(error) == complaint else logging.WARNING
            complaint = str(error)
            log.log(level, "this node is not known yet: %s", error)
            after = error.after if isinstance(error, Retry) else None
            await asyncio.sleep(max(backoff.next(), after or 0.0))


def _own(user: User, origin: str) -> tuple[bytes, bytes]:
    certificate = Pem(user.client_certificate_data, user.client_certificate, f"{origin}: client-certificate-data")
    key = Pem(user.client_key_data, user.client_key, f"{origin}: client-key-data")
    return certificate.read(), key.read()


def _keep_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key of an earlier try, or a new one, written down."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key
    except (FileNotFoundError, ValueError, TypeError):
        pass
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    new = ec.generate_private_key(ec.SECP256R1())
    write_private(path, key_pem(new))
    return new


def _write_kubeconfig(path: Path, cluster: Cluster, pem: Path) -> None:
    made = Kubeconfig(
        clusters=(NamedCluster(name="default-cluster", cluster=cluster),),
        users=(NamedUser(name="default-auth", user=User(client_certificate=str(pem), client_key=str(pem))),),
        contexts=(
            NamedContext(
                name="default-context",
                context=Context(cluster="default-cluster", user="default-auth", namespace="default"),
            ),
        ),
        current_context="default-context",
    )
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **codec.to_builtins(made)}, sort_keys=False)
    write_private(path, text.encode())
