"""Certificates that the API server's signers give to this node, renewed well before they expire.

The client certificate is what the node is known by; the serving certificate is for its own HTTP API. Both are asked for
with the credentials of now, and whoever uses them sees the new file.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.api.rules.well_known import CLIENT_SIGNER
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.kube.certificate_store import CertificateStore, StoredPair
from pykubelet.kube.client import ApiClient
from pykubelet.kube.csr import Outdated, Template, request_certificate, satisfies, wait_for_certificate
from pykubelet.pod.moments import CertificateRenewalFailed, CertificateRotated, Journal
from pykubelet.web.key_pairs import key_pem

log = logging.getLogger(__name__)

_LOOK: Final = 10.0
"""Seconds between looks at the clock, which may have been set, and at what the certificate has to say."""
_SOON: Final = 1.0
"""Seconds between looks at whether there is something to ask for: until then nobody can connect."""
_PATIENCE: Final = 15 * 60.0
_SOONEST: Final = 2.0
_LATEST: Final = 32.0


def rotation_due(pair: StoredPair, fraction: float) -> datetime:
    """When a certificate has lived for this fraction of its life."""
    return pair.begins + (pair.leaf.not_valid_after_utc - pair.begins) * fraction


def _spread() -> float:
    """Nodes that were made together shall not all come back together."""
    return random.uniform(0.7, 0.9)


class CertificateKeeper:
    """Keeps one kind of certificate valid: `run()` until cancelled.

    `template` says what it has to say; None means that it cannot be asked for yet. With `at_once` the certificate
    in force is replaced whatever its age, as one that was given by hand should be. `fallback` is asked when the
    certificate in force has expired, and the usual server would not know us any more. The journal is told of every new
    certificate, and of every time that none could be had.
    """

    def __init__(
        self,
        server: ApiClient,
        store: CertificateStore,
        signer: str,
        template: Callable[[], Template | None],
        *,
        at_once: bool = False,
        fallback: ApiClient | None = None,
        journal: Journal | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        spread: Callable[[], float] = _spread,
    ) -> None:
        self._server = server
        self._store = store
        self._signer = signer
        self._template = template
        self._at_once = at_once
        self._fallback = fallback
        self._journal = journal or Journal()
        self._kind: Literal["client", "server"] = "client" if signer == CLIENT_SIGNER else "server"
        self._now = now
        self._spread = spread
        self._pair: StoredPair | None = None
        self._given_for: Template | None = None
        """What the one in force was asked to say. When it says less, asking again would bring the same."""
        self._due = datetime.min.replace(tzinfo=UTC)

    @property
    def expires(self) -> datetime | None:
        """When the one in force does; None when there is none."""
        return self._pair.expires if self._pair else None

    async def run(self) -> None:
        await self._load()
        backoff = Backoff(_SOONEST, _LATEST, jitter=0.1, now=asyncio.get_running_loop().time)
        while True:
            template = self._template()
            if template is None or (left := self._seconds_left(template)) > 0:
                await asyncio.sleep(_SOON if template is None else min(left, _LOOK))
                continue
            try:
                await self._rotate(template)
            except Outdated as error:
                log.info("%s; asking anew", error)
            except PykubeletError as error:
                self._journal.note(CertificateRenewalFailed(self._kind))
                delay = backoff.next()
                log.warning("no new certificate from %s; the next try is in %.0f s: %s", self._signer, delay, error)
                await asyncio.sleep(delay)
            else:
                backoff.reset()

    async def _load(self) -> None:
        try:
            self._take(await asyncio.to_thread(self._store.current))
        except Invalid as error:
            log.warning("a new certificate is asked for: %s", error)
            self._take(None)

    def _take(self, pair: StoredPair | None) -> None:
        self._pair = pair
        if pair is not None:
            self._due = rotation_due(pair, self._spread())
            log.info("the certificate from %s expires %s and is renewed %s", self._signer, pair.expires, self._due)

    def _seconds_left(self, template: Template) -> float:
        if self._pair is None or self._at_once:
            return 0.0
        if template != self._given_for and not satisfies(self._pair.leaf, template):
            return 0.0
        return (self._due - self._now()).total_seconds()

    async def _rotate(self, template: Template) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        server = self._server
        if self._fallback is not None and self._pair is not None and self._now() >= self._pair.expires:
            server = self._fallback
        request = await request_certificate(server, key, template, self._signer)
        name = request.metadata.name
        try:
            async with asyncio.timeout(_PATIENCE):
                certificate = await wait_for_certificate(
                    server, request, is_wanted=lambda: self._template() == template
                )
        except TimeoutError:
            raise Retry(
                f"nobody has answered the certificate signing request {name}: kubectl certificate approve {name}"
            ) from None
        former = self._pair
        pair = await asyncio.to_thread(self._store.update, certificate, key_pem(key))
        if not satisfies(pair.leaf, template):
            log.warning("the certificate of %s says less than was asked for", name)
        self._at_once, self._given_for = False, template
        self._take(pair)
        age = (self._now() - former.begins).total_seconds() if former else 0.0
        self._journal.note(CertificateRotated(self._kind, age))
