"""The part of an API server that certifies: it takes signing requests, and signs when it is told to, or at once."""

import base64
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_PURPOSES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}


class SigningApi:
    """`now` is when certificates begin; `lifetime` how long they hold. `faults` are the next answers, as codes."""

    def __init__(self) -> None:
        self.requests: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.authorizations: list[str] = []
        self.faults: list[int] = []
        self.signs_at_once = False
        self.lifetime = timedelta(days=1)
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")])
        self._numbers = itertools.count(1)

    @property
    def names(self) -> list[str]:
        return list(self.requests)

    def pem(self) -> bytes:
        """The authority's own certificate."""
        builder = self._builder(self._name, self._key.public_key(), timedelta(days=1000))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def wanted(self, name: str) -> x509.CertificateSigningRequest:
        return x509.load_pem_x509_csr(base64.b64decode(self.requests[name]["spec"]["request"]))

    def say(self, name: str, kind: str, reason: str = "", message: str = "") -> None:
        conditions = self.requests[name].setdefault("status", {}).setdefault("conditions", [])
        conditions.append({"type": kind, "status": "True", "reason": reason, "message": message})

    def sign(self, name: str, *, without_names: bool = False) -> None:
        """Approve and issue."""
        self.say(name, "Approved")
        wanted = self.wanted(name)
        builder = self._builder(wanted.subject, wanted.public_key(), self.lifetime)
        purposes = [_PURPOSES[each] for each in self.requests[name]["spec"]["usages"] if each in _PURPOSES]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        for extension in () if without_names else wanted.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        self.requests[name]["status"]["certificate"] = base64.b64encode(pem).decode()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path.removeprefix(REQUESTS)}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.faults and (fault := self.faults.pop(0)):
            return _refusal(fault, "Fault")
        if request.method == "POST" and request.path == REQUESTS:
            return self._create(json.loads(await request.text()))
        item = self.requests.get(request.path.removeprefix(f"{REQUESTS}/"))
        return _refusal(404, "NotFound") if item is None else web.json_response(item)

    def _create(self, item: dict[str, Any]) -> web.Response:
        meta, number = item["metadata"], next(self._numbers)
        name = meta.get("name") or f"{meta['generateName']}{number}"
        if name in self.requests:
            return _refusal(409, "AlreadyExists")
        self.requests[name] = {**item, "metadata": {"name": name, "uid": f"uid-{number}"}}
        if self.signs_at_once:
            self.sign(name)
        return web.json_response(self.requests[name], status=201)

    def _builder(self, subject: x509.Name, key: Any, lifetime: timedelta) -> x509.CertificateBuilder:
        now = self.now()
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now).not_valid_after(now + lifetime)


def _refusal(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return web.json_response({**status, "message": reason}, status=code)
