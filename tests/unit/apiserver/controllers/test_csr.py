"""Which certificates are given to whom."""

import asyncio
import base64
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from kit.certificates import node_request_spec
from kit.cluster import ADDRESSES, START, TestCluster, cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.requests.users import authenticated
from pykubelet.apiserver.security.addresses import ClusterAddresses, Endpoint
from pykubelet.apiserver.writer.author import Author
from pykubelet.apiserver.writer.writer import Writer
from pykubelet.web.authority import Authority, general_name

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
    key = ec.generate_private_key(ec.SECP256R1())
    spec = {**node_request_spec(key, signer, node, organization, hosts), "username": user, "groups": groups}
    return {"metadata": {"name": "csr"}, "spec": spec, "status": {}}


async def answered(c: TestCluster, asked: dict[str, Any], addresses: ClusterAddresses | None = None) -> Any:
    authority = Authority.make(START)
    await c.add("certificates.k8s.io", "certificatesigningrequests", asked)
    await CsrController(c, authority, addresses or ADDRESSES).sync()
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


def serving(*hosts: str, node: str = "n1", source: str = "10.0.0.1", name: str = "csr") -> dict[str, Any]:
    """What a node asks for that speaks from `source`."""
    asked = request(f"system:node:{node}", ["system:nodes"], node=node, signer="kubelet-serving",
                    hosts=tuple(map(general_name, hosts)))  # fmt: skip
    return {**asked, "metadata": {"name": name, "annotations": {"pykubelet.dev/source-address": source}}}


def certified(status: Any) -> list[str]:
    """The names and addresses in the certificate that was given; none: it was not."""
    if "certificate" not in status:
        return []
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    return [
        str(each.value) for each in certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ]


@virtual_time
async def test_a_known_node_gets_a_serving_certificate_for_its_name_and_the_address_it_speaks_from() -> None:
    async with cluster() as c:
        await c.node("n1")
        status = await answered(c, serving("n1", "10.0.0.1"))
        assert certified(status) == ["n1", "10.0.0.1"]
        assert "Left out" not in status["conditions"][0]["message"]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("10.0.0.9", "not the address that the node speaks from"),
        ("10.0.0.5", "that of the API server"),
        ("10.0.0.2", "that of node n2"),
        ("10.96.0.1", "an address of services"),
        ("10.7.7.7", "that of a service"),
        ("127.0.0.1", "a loopback address"),
        ("169.254.169.254", "a link-local address"),
        ("fe80::1", "a link-local address"),
        ("::ffff:10.0.0.1", "no plain address"),
        ("0.0.0.0", "no address of a machine"),
        ("n2", "not the name of the node"),
        ("localhost", "not the name of the node"),
        ("kubernetes.default.svc", "not the name of the node"),
        ("api.example", "not the name of the node"),
        ("*", "not the name of the node"),
        ("*.n1", "not the name of the node"),
        ("N1", "not the name of the node"),
    ],
)
@virtual_time
async def test_what_is_not_the_nodes_is_left_out_whatever_it_says_of_itself(host: str, why: str) -> None:
    async with cluster() as c:
        claims = [{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": host}]
        await c.node("n1", addresses=claims)
        await c.node("n2", addresses=[{"type": "InternalIP", "address": "10.0.0.2"}])
        spec = {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"], "externalIPs": ["10.7.7.7"], "ports": []}
        await c.add("", "services", {"metadata": {"name": "s", "namespace": "default"}, "spec": spec})
        status = await answered(c, serving("n1", host))
        assert certified(status) == ["n1"]
        assert f"Left out: {general_name(host).value}, {why}." in status["conditions"][0]["message"]


@pytest.mark.parametrize(
    "node",
    ["localhost", "api.example", "kubernetes", "kubernetes.default.svc", "s.default", "s.default.svc", "x.localhost",
     "s.default.svc.cluster.local", "a.b.svc.other.domain", "10.0.0.1", "127.0.0.1"],
)  # fmt: skip
@virtual_time
async def test_a_node_is_not_called_what_others_are(node: str) -> None:
    """Whoever has a bootstrap token chooses the name of his node."""
    async with cluster() as c:
        await c.node(node)
        spec = {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"], "ports": []}
        await c.add("", "services", {"metadata": {"name": "s", "namespace": "default"}, "spec": spec})
        asked = serving(node, node=node) if not node[0].isdigit() else serving("x", node=node)
        if node[0].isdigit():  # as a name, where others would look for an address
            asked = request(f"system:node:{node}", ["system:nodes"], node=node, signer="kubelet-serving",
                            hosts=(x509.DNSName(node),))  # fmt: skip
        assert await answered(c, asked) == {}


@virtual_time
async def test_what_an_administrator_put_down_is_the_nodes() -> None:
    kubelets = {"n1": Endpoint(ip_address("10.9.9.9"), 10250)}
    addresses = ClusterAddresses(lambda: ("10.0.0.5",), 6443, "10.96.0.0/16", kubelets)
    async with cluster() as c:
        await c.node("n1")
        status = await answered(c, serving("n1", "10.9.9.9", "10.0.0.1", source=""), addresses)
        assert certified(status) == ["n1", "10.9.9.9"]


@virtual_time
async def test_a_node_on_the_servers_machine_may_be_called_like_it_if_an_administrator_knows() -> None:
    known = ClusterAddresses(lambda: ("machine", "10.0.0.5"), 6443, "10.96.0.0/16", {})
    put_down = ClusterAddresses(
        lambda: ("machine", "10.0.0.5"), 6443, "10.96.0.0/16", {"machine": Endpoint(ip_address("10.0.0.5"), 10250)}
    )
    for addresses, names in ((known, []), (put_down, ["machine"])):
        async with cluster() as c:
            await c.node("machine")
            asked = serving("machine", "10.0.0.5", node="machine", source="10.0.0.5")
            assert certified(await answered(c, asked, addresses)) == names


@virtual_time
async def test_a_person_may_say_yes_to_more() -> None:
    async with cluster() as c:
        await c.node("n1")
        asked = serving("n1", "10.0.0.9")
        asked["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]}
        assert certified(await answered(c, asked)) == ["n1", "10.0.0.9"]


@virtual_time
async def test_who_asks_again_for_what_was_left_out_has_to_wait_for_a_person() -> None:
    async with cluster() as c:
        await c.node("n1")
        assert certified(await answered(c, serving("n1", "10.0.0.9", name="csr"))) == ["n1"]
        controller = CsrController(c, Authority.make(START), ADDRESSES)
        await c.add(*REQUESTS, serving("n1", "10.0.0.9", name="again"))
        await c.add(*REQUESTS, serving("n1", "10.0.0.1", name="less"))
        await controller.sync()
        assert certified((await c.find(REQUESTS, "", "again") or {})["status"]) == []
        assert certified((await c.find(REQUESTS, "", "less") or {})["status"]) == ["n1", "10.0.0.1"]
        c.clock.pass_(601)
        await controller.sync()
        assert certified((await c.find(REQUESTS, "", "again") or {})["status"]) == ["n1"]


@pytest.mark.parametrize(
    ("ready", "text"), [("True", "is there already, and ready: "), ("Unknown", "is there already: ")]
)
@virtual_time
async def test_nobody_becomes_a_node_that_is_there_with_a_bootstrap_token(ready: str, text: str) -> None:
    async with cluster() as c:
        await c.node("n1", ready=ready)
        status = await answered(c, request("system:bootstrap:abcdef", ["system:bootstrappers"]))
        assert "certificate" not in status
        denied = status["conditions"][0]
        assert (denied["type"], denied["reason"]) == ("Denied", "NodeExists")
        assert f"a node n1 {text}" in denied["message"]
        assert "kubectl delete node n1" in denied["message"]


@virtual_time
async def test_a_node_that_is_there_renews_its_own() -> None:
    async with cluster() as c:
        await c.node("n1")
        assert "certificate" in await answered(c, request("system:node:n1", ["system:nodes"]))


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
        await CsrController(c, Authority.make(START), ADDRESSES).sync()
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
        await CsrController(c, Authority.make(START), ADDRESSES).sync()

        found = await c.find(REQUESTS, "", "csr")
        assert found is not None
        assert found["status"]["certificate"]
        mine = "kube-controller-manager"
        assert set(owners(found)) == {("kubelet", None), (mine, "approval"), (mine, "status")}


@virtual_time
async def test_a_request_is_answered_once_the_store_is_back() -> None:
    async with cluster() as c, running(CsrController(c, Authority.make(START), ADDRESSES), supervised=True):
        await asyncio.sleep(1)
        await c.add(*REQUESTS, request("system:bootstrap:abcdef", ["system:bootstrappers"]))
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        assert (await c.find(REQUESTS, "", "csr") or {})["status"]["certificate"]


@virtual_time
async def test_whoever_a_person_approves_gets_a_certificate_as_a_client() -> None:
    async with cluster() as c:
        asked = request("jane", ["system:authenticated"], organization="developers", signer="kube-apiserver-client")
        assert await answered(c, asked) == {}
        found = await c.get("certificatesigningrequests", "csr", group="certificates.k8s.io")
        approved = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}
        await c.change(REQUESTS, found, lambda live: {**live, "status": {"conditions": [approved]}}, part="approval")
        await CsrController(c, Authority.make(START), ADDRESSES).sync()
        status = (await c.get("certificatesigningrequests", "csr", group="certificates.k8s.io"))["status"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
        assert certificate.subject.rfc4514_string() == "CN=system:node:n1,O=developers"
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]


@virtual_time
async def test_a_client_is_not_certified_for_what_only_servers_do() -> None:
    async with cluster() as c:
        asked = request("jane", [], signer="kube-apiserver-client")
        asked["spec"]["usages"] = ["client auth", "server auth"]
        asked["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
        status = await answered(c, asked)
        assert [each["type"] for each in status["conditions"]] == ["Approved", "Failed"]
        assert "certificate" not in status
