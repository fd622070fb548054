"""Which certificates are given to whom."""

import asyncio
import base64
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kit.cluster import START, TestCluster, cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.requests.users import authenticated
from pykubelet.apiserver.writer.author import Author
from pykubelet.apiserver.writer.writer import Writer
from pykubelet.web.authority import Authority

REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")


def request(
    user: str,
    groups: list[str],
    *,
    node: str = "n1",
    organization: str = "system:nodes",
    signer: str = "kube-apiserver-client-kubelet",
    hosts: tuple[x509.GeneralName, ...] = (),
) -> dict[str, Any]:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    usage = "client auth" if "client" in signer else "server auth"
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": f"kubernetes.io/{signer}",
        "usages": ["digital signature", usage],
        "username": user,
        "groups": groups,
    }
    return {"metadata": {"name": "csr"}, "spec": spec, "status": {}}


async def answered(c: TestCluster, asked: dict[str, Any]) -> Any:
    authority = Authority.make(START)
    await c.add("certificates.k8s.io", "certificatesigningrequests", asked)
    await CsrController(c, authority).sync()
    return (await c.get("certificatesigningrequests", "csr", group="certificates.k8s.io"))["status"]


@virtual_time
async def test_a_bootstrap_token_gets_a_node_its_client_certificate() -> None:
    async with cluster() as c:
        status = await answered(c, request("system:bootstrap:abcdef", ["system:bootstrappers"]))

        certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
        assert certificate.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert [each["type"] for each in status["conditions"]] == ["Approved"]


@virtual_time
async def test_a_request_that_is_not_the_nodes_own_business_waits_for_a_person() -> None:
    nodes = ["system:nodes"]
    cases = [
        request("system:node:n2", nodes),
        request("mallory", ["system:authenticated"]),
        request("system:node:n1", []),
        request("system:bootstrap:abcdef", ["system:bootstrappers"], organization="system:masters"),
        request("system:node:n1", nodes, hosts=(x509.DNSName("n1"),)),
        request("system:node:n1", nodes, signer="kubelet-serving", hosts=(x509.DNSName("elsewhere"),)),
        request("system:bootstrap:a", ["system:bootstrappers"], signer="kubelet-serving", hosts=(x509.DNSName("n1"),)),
        request("system:node:n3", nodes, node="n3", signer="kubelet-serving", hosts=(x509.DNSName("n3"),)),
    ]  # fmt: skip
    for asked in cases:
        async with cluster() as c:
            await c.node("n1")
            assert await answered(c, asked) == {}, asked


@virtual_time
async def test_a_known_node_gets_a_serving_certificate_for_its_own_addresses() -> None:
    hosts = (x509.DNSName("n1"), x509.IPAddress(ip_address("10.0.0.1")))
    async with cluster() as c:
        await c.node("n1", addresses=[{"type": "InternalIP", "address": "10.0.0.1"}])
        status = await answered(c, request("system:node:n1", ["system:nodes"], signer="kubelet-serving", hosts=hosts))

        certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
        assert list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == list(hosts)


@virtual_time
async def test_what_a_person_approved_but_cannot_be_signed_fails() -> None:
    asked = request("somebody", [], organization="system:masters")
    asked["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    async with cluster() as c:
        status = await answered(c, asked)

        assert "certificate" not in status
        assert status["conditions"][-1]["message"] == "subject organization is not system:nodes"


@virtual_time
async def test_what_is_denied_in_between_is_not_signed() -> None:
    async with cluster() as c:
        asked = await c.add(*REQUESTS, request("system:bootstrap:abcdef", ["system:bootstrappers"]))
        denied = {"type": "Denied", "status": "True", "reason": "No", "message": "no"}

        async def deny() -> None:
            await c.change(REQUESTS, asked, lambda live: {**live, "status": {"conditions": [denied]}}, part="approval")

        c.store.before_write("certificatesigningrequests/csr", deny)
        await CsrController(c, Authority.make(START)).sync()
        status = (await c.find(REQUESTS, "", "csr") or {})["status"]
        assert "certificate" not in status
        assert [each["type"] for each in status["conditions"]] == ["Denied"]


@virtual_time
async def test_a_request_that_vanishes_in_between_stops_nothing() -> None:
    async with cluster() as c:
        asked = request("system:bootstrap:abcdef", ["system:bootstrappers"])
        first = await c.add(*REQUESTS, {**asked, "metadata": {"name": "a"}})
        c.store.before_write("certificatesigningrequests/a", lambda: c.remove(REQUESTS, first))
        assert "certificate" in await answered(c, asked)
        assert await c.find(REQUESTS, "", "a") is None


@virtual_time
async def test_approval_and_certificate_are_written_by_their_own_ways() -> None:
    async with cluster() as c:
        node = Author(authenticated("system:node:n1", ("system:nodes",)), "kubelet")
        asked = request("system:node:n1", ["system:nodes"])
        await Writer(c.backend, node).ensure(
            c.resource(REQUESTS), {**asked, "metadata": {"name": "csr", "labels": {"a": "b"}}}
        )
        await CsrController(c, Authority.make(START)).sync()

        found = await c.find(REQUESTS, "", "csr")
        assert found is not None
        assert found["status"]["certificate"]
        mine = "kube-controller-manager"
        assert set(owners(found)) == {("kubelet", None), (mine, "approval"), (mine, "status")}


@virtual_time
async def test_a_request_is_answered_once_the_store_is_back() -> None:
    async with cluster() as c, running(CsrController(c, Authority.make(START)), supervised=True):
        await asyncio.sleep(1)
        await c.add(*REQUESTS, request("system:bootstrap:abcdef", ["system:bootstrappers"]))
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        assert (await c.find(REQUESTS, "", "csr") or {})["status"]["certificate"]
