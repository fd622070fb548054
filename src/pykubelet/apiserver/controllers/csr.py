"""Approves and signs the certificate requests of kubelets."""

import base64
import logging
from datetime import timedelta
from typing import Any, Final

from cryptography import x509

from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers import csr_rules
from pykubelet.apiserver.controllers.client import NODES, ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import NODE_PREFIX
from pykubelet.base.errors import Invalid
from pykubelet.web.authority import YEAR, Authority, public_key_of

log = logging.getLogger(__name__)

REQUESTS: Final[Kind] = ("certificates.k8s.io", "certificatesigningrequests")
_SHORTEST: Final = 600


def is_open(request: Object) -> Object | None:
    """The request, if there is something left to do about it."""
    if at(request, "status.certificate") or at(request, "spec.signerName") not in csr_rules.SIGNERS:
        return None
    answered = any(condition(request, kind).get("status") == "True" for kind in ("Denied", "Failed"))
    return None if answered else request


class CsrController:
    def __init__(self, client: ControllerClient, authority: Authority) -> None:
        self._client = client
        self._authority = authority

    async def run(self) -> None:
        await self._client.follow(self.sync, REQUESTS, NODES)

    async def sync(self) -> None:
        for request in await self._client.views(REQUESTS, is_open):
            if request is not None:
                await self._look_at(request)

    async def _look_at(self, request: Object) -> None:
        is_approved = condition(request, "Approved").get("status") == "True"
        try:
            asked = csr_rules.parsed(request)
            why = csr_rules.fault(request, asked)
        except Invalid as error:
            asked, why = None, str(error)
        if not is_approved and asked is not None:
            name = csr_rules.common_name(asked).removeprefix(NODE_PREFIX)
            node = await self._client.find(NODES, "", name) if name else None
            text = csr_rules.approval(request, asked, node)
            if not text:
                return
            new = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": text}
            request = await self._set_condition(request, new) or request
            is_approved = condition(request, "Approved").get("status") == "True"
        if is_approved:
            await self._sign(request, asked, why)

    async def _sign(self, request: Object, asked: x509.CertificateSigningRequest | None, why: str) -> None:
        try:
            if why or asked is None:
                raise Invalid(why)
            pem = self._signed(request, asked)
        except Invalid as error:
            new = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": str(error)}
            await self._set_condition(request, new)
            return
        certificate = base64.b64encode(pem).decode()
        await self._client.change(REQUESTS, request, lambda live: issued(live, certificate), part="status")
        log.info("certificate request %s is signed", request["metadata"]["name"])

    def _signed(self, request: Object, asked: x509.CertificateSigningRequest) -> bytes:
        seconds = at(request, "spec.expirationSeconds")
        lifetime = YEAR if seconds is None else min(YEAR, timedelta(seconds=max(_SHORTEST, seconds)))
        signer = at(request, "spec.signerName")
        return self._authority.sign(
            public_key_of(asked),
            asked.subject,
            self._client.now(),
            lifetime,
            hosts=csr_rules.subject_names(asked) if signer == SERVING_SIGNER else (),
            client=signer == CLIENT_SIGNER,
            server=signer == SERVING_SIGNER,
            enciphers="key encipherment" in at(request, "spec.usages", []),
        )

    async def _set_condition(self, request: Object, new: dict[str, Any]) -> Object | None:
        now = rfc3339(self._client.now())

        def change(live: Object) -> Object | None:
            if any(condition(live, kind).get("status") == "True" for kind in ("Denied", "Failed", new["type"])):
                return None
            return conditioned(live, {**new, "lastUpdateTime": now}, now)

        part = "approval" if new["type"] == "Approved" else "status"
        return await self._client.change(REQUESTS, request, change, part=part)


def issued(request: Object, certificate: str) -> Object | None:
    """With its certificate, unless somebody was faster, or has forbidden it meanwhile."""
    status = request.get("status", {})
    if status.get("certificate") or condition(request, "Denied").get("status") == "True":
        return None
    return {**request, "status": {**status, "certificate": certificate}}
