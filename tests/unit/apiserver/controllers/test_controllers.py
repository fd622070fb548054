"""The small loops, on objects in memory and on virtual time."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kit.cluster import START, TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.all import Controller, run_all
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.controllers.endpoint_slices import EndpointSlices
from pykubelet.apiserver.controllers.endpoints import EndpointsController
from pykubelet.apiserver.controllers.expiry import Expiry
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.namespaces import NamespaceController
from pykubelet.apiserver.controllers.nodes import NodeLifecycle
from pykubelet.apiserver.controllers.pods import PodGarbageCollector
from pykubelet.apiserver.controllers.root_ca import RootCa
from pykubelet.apiserver.controllers.scheduler import Scheduler
from pykubelet.apiserver.security.authority import Authority
from pykubelet.apiserver.security.bootstrap_tokens import token_secret

GONE = {"deletionTimestamp": "2026-01-02T03:04:05Z"}


@asynccontextmanager
async def running(controller: Controller) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- the scheduler


@virtual_time
async def test_a_pod_is_bound_at_once_and_an_event_tells_of_it() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await c.pod("web")
        await asyncio.sleep(0.5)

        pod = await c.get("pods", "web")
        assert pod["spec"]["nodeName"] == "n1"
        assert condition(pod, "PodScheduled")["status"] == "True"
        assert await c.events() == [("Scheduled", "Successfully assigned default/web to n1")]


@virtual_time
async def test_a_pod_that_fits_nowhere_says_why_once_and_is_bound_when_a_node_comes() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.pod("web", {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]})
        await c.node("small", allocatable={"cpu": "500m", "memory": "1Gi", "pods": "10"})
        await asyncio.sleep(5)

        waiting = condition(await c.get("pods", "web"), "PodScheduled")
        assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
        assert waiting["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert [text for reason, text in await c.events() if reason == "FailedScheduling"][-1] == waiting["message"]

        await c.node("large")
        await asyncio.sleep(5)
        assert (await c.get("pods", "web"))["spec"]["nodeName"] == "large"


@virtual_time
async def test_pods_that_come_together_do_not_get_the_same_room() -> None:
    one = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1500m"}}}]}
    async with cluster() as c:
        await c.node("n1")
        await c.pod("a", one)
        await c.pod("b", one)
        await Scheduler(c).sync()

        assert [(await c.get("pods", name))["spec"].get("nodeName") for name in "ab"] == ["n1", None]


@virtual_time
async def test_pods_of_another_scheduler_and_gated_ones_are_left_alone() -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.pod("theirs", {"schedulerName": "other"})
        await c.pod("gated", {"schedulingGates": [{"name": "later"}]})
        await Scheduler(c).sync()

        assert not [each for each in await c.all(("", "pods")) if "nodeName" in each["spec"]]


@virtual_time
async def test_the_room_of_a_pod_that_has_ended_is_free() -> None:
    one = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
    async with cluster() as c:
        await c.node("n1")
        await c.pod("old", {**one, "nodeName": "n1"}, status={"phase": "Succeeded"})
        await c.pod("new", one)
        await Scheduler(c).sync()

        assert (await c.get("pods", "new"))["spec"]["nodeName"] == "n1"


# --- namespaces


@virtual_time
async def test_a_deleted_namespace_goes_after_everything_in_it() -> None:
    async with cluster() as c, running(NamespaceController(c)):
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "doomed"}})
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        await c.pod("p", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}, metadata={"namespace": "doomed"})
        metadata = {"name": "doomed", **GONE}
        await c.add("", "namespaces", {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}})
        await asyncio.sleep(5)

        assert await c.get("configmaps", "a", "doomed") is None
        pod = await c.get("pods", "p", "doomed")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        namespace = await c.get("namespaces", "doomed")
        text = condition(namespace, "NamespaceContentRemaining")["message"]
        assert text == "Some resources are remaining: pods has 1 resource instances"

        await c.remove(("", "pods"), pod, grace=0)
        await asyncio.sleep(5)
        assert await c.get("namespaces", "doomed") is None
        assert await c.get("configmaps", "a") is not None


@virtual_time
async def test_every_namespace_gets_the_authority_and_gets_it_back() -> None:
    async with cluster() as c, running(RootCa(c, "PEM")):
        await c.add("", "namespaces", {"metadata": {"name": "default"}})
        await c.add("", "namespaces", {"metadata": {"name": "doomed", **GONE}})
        await asyncio.sleep(1)
        found = await c.get("configmaps", "kube-root-ca.crt")
        assert found["data"] == {"ca.crt": "PEM"}
        assert await c.get("configmaps", "kube-root-ca.crt", "doomed") is None

        await c.change(("", "configmaps"), found, lambda live: {**live, "data": {"ca.crt": "forged"}})
        await asyncio.sleep(1)
        assert (await c.get("configmaps", "kube-root-ca.crt"))["data"] == {"ca.crt": "PEM"}


# --- nodes and their pods


async def renewed(c: TestCluster, name: str, time: str) -> None:
    found = await c.get("leases", name, "kube-node-lease", "coordination.k8s.io")
    if found is None:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": time}}
        await c.add("coordination.k8s.io", "leases", lease)
        return
    kind = ("coordination.k8s.io", "leases")
    await c.change(kind, found, lambda live: {**live, "spec": {**live["spec"], "renewTime": time}})


def taints(node: Any) -> list[tuple[str, str]]:
    return [(each["key"].partition("/")[2], each["effect"]) for each in node["spec"].get("taints", [])]


@virtual_time
async def test_a_node_that_falls_silent_is_tainted_and_its_pods_leave_when_their_time_is_up() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    key = "node.kubernetes.io/unreachable"
    patient = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    async with cluster() as c, running(NodeLifecycle(c)):
        await c.node("n1")
        await renewed(c, "n1", "1")
        await c.pod("patient", {"nodeName": "n1", "tolerations": [patient]}, status=ready)
        await c.pod("hasty", {"nodeName": "n1"}, status=ready)
        await c.pod("loyal", {"nodeName": "n1", "tolerations": [{"operator": "Exists"}]}, status=ready)
        await asyncio.sleep(30)
        assert condition(await c.get("nodes", "n1"), "Ready")["status"] == "True"

        await renewed(c, "n1", "2")
        await asyncio.sleep(30)
        assert condition(await c.get("nodes", "n1"), "Ready")["status"] == "True"

        await asyncio.sleep(30)
        node = await c.get("nodes", "n1")
        assert condition(node, "Ready")["reason"] == "NodeStatusUnknown"
        assert taints(node) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
        assert condition(await c.get("pods", "patient"), "Ready")["status"] == "False"
        gone = [
            each["metadata"]["name"] for each in await c.all(("", "pods")) if "deletionTimestamp" in each["metadata"]
        ]
        left = {each["metadata"]["name"] for each in await c.all(("", "pods"))} - set(gone)
        assert left == {"patient", "loyal"}

        c.clock.pass_(301)
        await asyncio.sleep(10)
        assert {each["metadata"]["name"] for each in await c.all(("", "pods"))} == {"loyal"}


@virtual_time
async def test_a_node_that_comes_back_loses_our_taints_and_keeps_the_others() -> None:
    mine = {"key": "mine", "effect": "NoSchedule"}
    old = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    async with cluster() as c:
        await c.node("n1", spec={"taints": [mine, old]})
        await NodeLifecycle(c).sync()

        assert (await c.get("nodes", "n1"))["spec"]["taints"] == [mine]


@virtual_time
async def test_pressure_and_cordon_become_taints() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    async with cluster() as c:
        await c.node("n1", spec={"unschedulable": True}, conditions=conditions)
        await NodeLifecycle(c).sync()

        assert taints(await c.get("nodes", "n1")) == [("disk-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")]


@virtual_time
async def test_pods_of_a_node_that_is_gone_are_cleared_away_after_a_while() -> None:
    async with cluster() as c, running(PodGarbageCollector(c)):
        await c.node("n1")
        await c.pod("stays", {"nodeName": "n1"})
        await c.pod("goes", {"nodeName": "n2", "terminationGracePeriodSeconds": 30})
        await asyncio.sleep(30)
        assert await c.get("pods", "goes") is not None

        await asyncio.sleep(60)
        assert await c.get("pods", "goes") is None
        assert await c.get("pods", "stays") is not None


# --- garbage


def owned(name: str, *owners: tuple[str, str]) -> dict[str, Any]:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid} for owner, uid in owners]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}


@virtual_time
async def test_what_is_owned_goes_with_the_last_of_its_owners() -> None:
    async with cluster() as c, running(GarbageCollector(c)):
        pod = await c.pod("p")
        await c.add("", "configmaps", owned("one", ("p", "uid-of-p")))
        await c.add("", "configmaps", owned("two", ("p", "uid-of-p"), ("q", "uid-of-q")))
        await c.pod("q")
        await asyncio.sleep(2)
        assert len(await c.all(("", "configmaps"))) == 2

        await c.remove(("", "pods"), pod)
        await asyncio.sleep(2)
        found = await c.all(("", "configmaps"))
        assert [each["metadata"]["name"] for each in found] == ["two"]
        assert [each["name"] for each in found[0]["metadata"]["ownerReferences"]] == ["q"]


@virtual_time
async def test_an_owner_of_the_same_name_but_another_uid_is_none_and_an_unknown_kind_is_believed() -> None:
    async with cluster() as c:
        await c.pod("p")
        await c.add("", "configmaps", owned("stale", ("p", "former")))
        strange = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}
        metadata = {"name": "strange", "namespace": "default", "ownerReferences": [strange]}
        await c.add("", "configmaps", {"metadata": metadata})
        await GarbageCollector(c).sync()

        assert [each["metadata"]["name"] for each in await c.all(("", "configmaps"))] == ["strange"]


# --- endpoints


@virtual_time
async def test_endpoints_follow_the_pods_behind_a_service() -> None:
    ports = [{"name": "main", "ports": [{"name": "http", "containerPort": 8080}]}]
    ready = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    async with cluster() as c, running(EndpointsController(c)):
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
        service = await c.add("", "services", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await c.pod("a", {"containers": ports}, metadata={"labels": {"app": "web"}}, status=ready)
        slow = {**ready, "podIP": "10.0.0.2", "conditions": []}
        await c.pod("b", {"containers": ports}, metadata={"labels": {"app": "web"}}, status=slow)
        await c.pod("c", {"containers": ports}, metadata={"labels": {"app": "other"}}, status=ready)
        await c.add("", "endpoints", {"metadata": {"name": "by-hand", "namespace": "default"}})
        await asyncio.sleep(1)

        (found,) = (await c.get("endpoints", "web"))["subsets"]
        assert [each["ip"] for each in found["addresses"]] == ["10.0.0.1"]
        assert [each["targetRef"]["name"] for each in found["notReadyAddresses"]] == ["b"]
        assert found["ports"] == [{"port": 8080, "protocol": "TCP"}]

        await c.remove(("", "services"), service)
        await asyncio.sleep(1)
        assert await c.get("endpoints", "web") is None
        assert await c.get("endpoints", "by-hand") is not None


@virtual_time
async def test_endpoint_slices_say_what_the_endpoints_say() -> None:
    kind = ("discovery.k8s.io", "endpointslices")
    async with cluster() as c, running(EndpointSlices(c)):
        addresses = [{"ip": "10.0.0.1", "nodeName": "n1"}, {"ip": "fd00::1"}]
        subset = {"addresses": addresses, "notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 80}]}
        web = {"metadata": {"name": "web", "namespace": "default"}, "subsets": [subset]}
        endpoints = await c.add("", "endpoints", web)
        await asyncio.sleep(1)
        found = {each["addressType"]: each for each in await c.all(kind)}
        assert set(found) == {"IPv4", "IPv6"}
        four = found["IPv4"]
        assert four["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert four["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]
        seen = [(each["addresses"], each["conditions"]["ready"], each.get("nodeName")) for each in four["endpoints"]]
        assert seen == [(["10.0.0.1"], True, "n1"), (["10.0.0.2"], False, None)]

        less = [{"addresses": addresses[:1], "ports": [{"port": 80}]}]
        await c.change(("", "endpoints"), endpoints, lambda live: {**live, "subsets": less})
        await asyncio.sleep(1)
        (left,) = await c.all(kind)
        assert left["metadata"]["uid"] == four["metadata"]["uid"]
        assert len(left["endpoints"]) == 1

        await c.remove(("", "endpoints"), endpoints)
        await asyncio.sleep(1)
        assert await c.all(kind) == []


# --- certificates


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
async def test_old_requests_and_bootstrap_tokens_go() -> None:
    async with cluster() as c:
        await c.add("certificates.k8s.io", "certificatesigningrequests", {"metadata": {"name": "open"}})
        await c.add("", "secrets", token_secret("abcdef.0123456789abcdef", START))
        c.clock.pass_(3600)
        await Expiry(c).sync()
        assert await c.get("secrets", "bootstrap-token-abcdef", "kube-system") is None
        assert await c.get("certificatesigningrequests", "open", group="certificates.k8s.io") is not None

        c.clock.pass_(24 * 3600)
        await Expiry(c).sync()
        assert await c.get("certificatesigningrequests", "open", group="certificates.k8s.io") is None


@virtual_time
async def test_all_of_them_run_together() -> None:
    async with cluster() as c:
        everything = asyncio.create_task(run_all(c.backend, Authority.make(START)))
        try:
            await c.add("", "namespaces", {"metadata": {"name": "default"}})
            await c.node("n1")
            await renewed(c, "n1", "1")
            await c.pod("web")
            await asyncio.sleep(3)
            assert (await c.get("pods", "web"))["spec"]["nodeName"] == "n1"
            assert await c.get("configmaps", "kube-root-ca.crt") is not None
        finally:
            everything.cancel()
            await asyncio.gather(everything, return_exceptions=True)
