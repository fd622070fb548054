"""Approves and signs the certificate requests of kubelets, and signs those of others that a person has approved."""

import asyncio
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
from pykubelet.apiserver.security.addresses import Address, ClusterAddresses, address_of
from pykubelet.apiserver.strategies.certificate_signing_requests import SOURCE_ANNOTATION
from pykubelet.base.errors import Invalid
from pykubelet.web.authority import YEAR, Authority, public_key_of

log = logging.getLogger(__name__)

REQUESTS: Final[Kind] = ("certificates.k8s.io", "certificatesigningrequests")
SERVICES: Final[Kind] = ("", "services")
_SHORTEST: Final = 600
_OURS: Final = "AutoApproved"
_LEFT_OUT: Final = " Left out: "
_LATELY: Final = timedelta(minutes=10)


def is_open(request: Object) -> Object | None:
    """The request, if there is something left to do about it."""
    if at(request, "status.certificate") or at(request, "spec.signerName") not in csr_rules.SIGNERS:
        return None
    answered = any(condition(request, kind).get("status") == "True" for kind in ("Denied", "Failed"))
    return None if answered else request


class CsrController:
    """Approving and signing are two controllers, of which either may be somebody else's."""

    def __init__(
        self,
        client: ControllerClient,
        authority: Authority,
        addresses: ClusterAddresses,
        *,
        approves: bool = True,
        signs: bool = True,
    ) -> None:
        self._client = client
        self._approves = approves
        self._signs = signs
        self._authority = authority
        self._addresses = addresses
        self._told: set[str] = set()
        """Requests of which the log has said why they wait for a person."""

    async def run(self) -> None:
        await self._client.follow(self.sync, REQUESTS, NODES)

    async def sync(self) -> None:
        found = [each for each in await self._client.views(REQUESTS, is_open) if each is not None]
        self._told &= {each["metadata"]["uid"] for each in found}
        for request in found:
            with self._client.apart(f"certificate request {request['metadata']['name']}"):
                await self._look_at(request)

    async def _look_at(self, request: Object) -> None:
        try:
            asked = csr_rules.parsed(request)
            why = csr_rules.fault(request, asked)
        except Invalid as error:
            asked, why = None, str(error)
        is_ours = at(request, "spec.signerName") != csr_rules.API_CLIENT_SIGNER
        if self._approves and is_ours and not _is_approved(request) and asked is not None and not why:
            request = await self._judge(request, asked) or request
        if self._signs and _is_approved(request):
            await self._sign(request, asked, why)

    async def _judge(self, request: Object, asked: x509.CertificateSigningRequest) -> Object | None:
        """Approve or deny it, or leave it to a person."""
        node = await self._client.find(NODES, "", _node_of(asked))
        if text := csr_rules.denial(request, asked, node):
            denied = {"type": "Denied", "status": "True", "reason": "NodeExists", "message": text}
            return await self._set_condition(request, denied)
        text = csr_rules.approval(request, asked, node)
        if at(request, "spec.signerName") == SERVING_SIGNER and csr_rules.is_own(request, asked) and node is not None:
            text = await self._serving_approval(request, asked)
        if not text:
            return None
        new = {"type": "Approved", "status": "True", "reason": _OURS, "message": text}
        return await self._set_condition(request, new)

    async def _serving_approval(self, request: Object, asked: x509.CertificateSigningRequest) -> str:
        """What may not be certified is left out, and told; empty: a person has to decide."""
        given, refused = await self._granted(request, asked)
        left_out = f"{_LEFT_OUT}{'; '.join(refused)}." if refused else ""
        if given and not (left_out and await self._was_reduced_lately(request)):
            names = ", ".join(str(each.value) for each in given)
            return f"Auto approving kubelet serving certificate for {names}.{left_out}"
        uid = request["metadata"]["uid"]
        if uid not in self._told:
            self._told.add(uid)
            name = request["metadata"]["name"]
            log.warning("certificate request %s waits for a person: kubectl certificate approve.%s", name, left_out)
        return ""

    async def _was_reduced_lately(self, request: Object) -> bool:
        """Some ask again at once for what they did not get: then it is for a person to say yes or no."""
        since, user = rfc3339(self._client.now() - _LATELY), at(request, "spec.username")
        return any(who == user and when > since for who, when in await self._client.views(REQUESTS, _reduced))

    async def _granted(
        self, request: Object, asked: x509.CertificateSigningRequest
    ) -> tuple[list[x509.GeneralName], list[str]]:
        node = _node_of(asked)
        source = address_of(at(request, "metadata.annotations", {}).get(SOURCE_ANNOTATION, ""))
        put_down = self._addresses.kubelets.get(node)
        own = (source, put_down.address if put_down else None)
        return csr_rules.granted(asked, frozenset(each for each in own if each is not None), await self._reserved(node))

    async def _reserved(self, node: str) -> csr_rules.Reserved:
        """What is not the node's, whatever it says."""
        names: dict[str, str] = {}
        addresses: dict[Address, str] = {}
        for other, ips in await self._client.views(NODES, _node_addresses, whole=True):
            if other != node:
                addresses |= dict.fromkeys(ips, f"that of node {other}")
        for called, ips in await self._client.views(SERVICES, _service_addresses, whole=True):
            names |= dict.fromkeys(called, "that of a service")
            addresses |= dict.fromkeys(ips, "that of a service")
        if node not in self._addresses.kubelets:  # whose machine may be the API server's, as an administrator knows
            names |= dict.fromkeys(await asyncio.to_thread(self._addresses.names), "that of the API server")
        addresses |= dict.fromkeys(await asyncio.to_thread(self._addresses.own), "that of the API server")
        return csr_rules.Reserved(names, addresses, self._addresses.fault)

    async def _sign(self, request: Object, asked: x509.CertificateSigningRequest | None, why: str) -> None:
        try:
            if why or asked is None:
                raise Invalid(why)
            pem = self._signed(request, asked, await self._hosts(request, asked))
        except Invalid as error:
            new = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": str(error)}
            await self._set_condition(request, new)
            return
        certificate = base64.b64encode(pem).decode()
        await self._client.change(REQUESTS, request, lambda live: issued(live, certificate), part="status")
        log.info("certificate request %s is signed", request["metadata"]["name"])

    async def _hosts(self, request: Object, asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
        """A person's yes is for all that is asked for, ours for what we grant. Raises Invalid."""
        signer = at(request, "spec.signerName")
        if signer == CLIENT_SIGNER:
            return []
        if signer == csr_rules.API_CLIENT_SIGNER or condition(request, "Approved").get("reason") != _OURS:
            return csr_rules.subject_names(asked)
        given, refused = await self._granted(request, asked)
        if not given:
            raise Invalid(f"nothing that was asked for can be certified any more: {'; '.join(refused)}")
        return given

    def _signed(self, request: Object, asked: x509.CertificateSigningRequest, hosts: list[x509.GeneralName]) -> bytes:
        seconds = at(request, "spec.expirationSeconds")
        lifetime = YEAR if seconds is None else min(YEAR, timedelta(seconds=max(_SHORTEST, seconds)))
        signer = at(request, "spec.signerName")
        return self._authority.sign(
            public_key_of(asked),
            asked.subject,
            self._client.now(),
            lifetime,
            hosts=hosts,
            client=signer != SERVING_SIGNER,
            server=signer == SERVING_SIGNER,
            enciphers="key encipherment" in at(request, "spec.usages", []),
        )

    async def _set_condition(self, request: Object, new: dict[str, Any]) -> Object | None:
        now = rfc3339(self._client.now())

        def change(live: Object) -> Object | None:
            if any(condition(live, kind).get("status") == "True" for kind in ("Denied", "Failed", new["type"])):
                return None
            return conditioned(live, {**new, "lastUpdateTime": now}, now)

        part = "status" if new["type"] == "Failed" else "approval"
        return await self._client.change(REQUESTS, request, change, part=part)


def issued(request: Object, certificate: str) -> Object | None:
    """With its certificate, unless somebody was faster, or has forbidden it meanwhile."""
    status = request.get("status", {})
    if status.get("certificate") or condition(request, "Denied").get("status") == "True":
        return None
    return {**request, "status": {**status, "certificate": certificate}}


def _is_approved(request: Object) -> bool:
    return bool(condition(request, "Approved").get("status") == "True")


def _node_of(asked: x509.CertificateSigningRequest) -> str:
    return csr_rules.common_name(asked).removeprefix(NODE_PREFIX)


def _reduced(request: Object) -> tuple[str, str]:
    """-> who got a serving certificate for less than he asked for, and when; empty: nobody"""
    approved = condition(request, "Approved")
    if not at(request, "status.certificate") or _LEFT_OUT not in approved.get("message", ""):
        return "", ""
    return at(request, "spec.username", ""), approved.get("lastUpdateTime", "")


def _node_addresses(node: Object) -> tuple[str, frozenset[Address]]:
    told = (address_of(each.get("address", "")) for each in at(node, "status.addresses", []))
    return node["metadata"]["name"], frozenset(each for each in told if each is not None)


def _service_addresses(service: Object) -> tuple[frozenset[str], frozenset[Address]]:
    """What a service is called, and where it is."""
    metadata, spec = service["metadata"], service.get("spec", {})
    name = f"{metadata['name']}.{metadata['namespace']}"
    told = [*spec.get("clusterIPs", ()), *spec.get("externalIPs", ()), spec.get("loadBalancerIP", "")]
    told += [each.get("ip", "") for each in at(service, "status.loadBalancer.ingress", [])]
    return frozenset((name,)), frozenset(each for each in map(address_of, told) if each is not None)
