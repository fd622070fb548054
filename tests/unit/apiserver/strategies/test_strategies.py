"""What is particular to a kind."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kit.api_process import Api, serving_api

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def api() -> AsyncGenerator[Api, None]:
    async with serving_api() as running:
        yield running


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


# --- pods


async def test_a_new_pod_gets_an_account_a_token_a_priority_and_tolerations(api: Api) -> None:
    secret = {"imagePullSecrets": [{"name": "key"}]}
    await api.ask("PATCH", f"{NS}/serviceaccounts/default", secret, kind=MERGE)
    _, made = await api.ask("POST", PODS, pod())
    spec = made["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["imagePullSecrets"] == [{"name": "key"}]
    assert spec["priority"] == 0
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    volume = spec["volumes"][0]["name"]
    assert volume.startswith("kube-api-access-")
    assert spec["containers"][0]["volumeMounts"][0]["name"] == volume
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_pod_whose_account_does_not_exist_is_refused(api: Api) -> None:
    code, refused = await api.ask("POST", PODS, pod(serviceAccountName="ghost"))
    assert (code, refused["reason"]) == (403, "Forbidden")
    assert 'serviceaccount "ghost" not found' in refused["message"]


async def test_the_priority_comes_from_the_class(api: Api) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.ask("POST", path, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    _, made = await api.ask("POST", PODS, pod(priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")
    assert (await api.ask("POST", PODS, pod("q", priorityClassName="none")))[0] == 403
    assert (await api.ask("POST", PODS, pod("q", priority=7)))[0] == 403


async def test_a_runtime_class_brings_its_overhead(api: Api) -> None:
    given = {"metadata": {"name": "vm"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    await api.ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", given)
    _, made = await api.ask("POST", PODS, pod(runtimeClassName="vm"))
    assert made["spec"]["overhead"] == {"cpu": "250m"}
    assert (await api.ask("POST", PODS, pod("q", runtimeClassName="none")))[0] == 403


@pytest.mark.parametrize(
    ("requests", "limits", "qos"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
    ],
)
async def test_the_class_of_service_is_written_down(
    api: Api, requests: dict[str, str], limits: dict[str, str], qos: str
) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}
    _, made = await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert made["status"]["qosClass"] == qos


async def test_of_a_pods_spec_only_a_little_may_change(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    new_image = {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}
    _, made = await api.ask("PATCH", f"{PODS}/p", new_image, kind=STRATEGIC)
    assert made["metadata"]["generation"] == 2
    code, refused = await api.ask("PATCH", f"{PODS}/p", {"spec": {"hostNetwork": True}}, kind=MERGE)
    assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec")])
    more = {"spec": {"containers": [{"name": "d", "image": "i"}]}}
    code, refused = await api.ask("PATCH", f"{PODS}/p", more, kind=STRATEGIC)
    assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec.containers")])
    code, refused = await api.ask("PATCH", f"{PODS}/p", {"spec": {"tolerations": []}}, kind=MERGE)
    assert code == 200, "the default ones are put back"


async def test_status_and_spec_are_written_separately(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    both = {"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}}
    _, by_status = await api.ask("PATCH", f"{PODS}/p/status", both, kind=STRATEGIC)
    assert (by_status["status"]["phase"], by_status["spec"].get("activeDeadlineSeconds")) == ("Running", None)
    assert by_status["metadata"]["generation"] == 1
    _, by_spec = await api.ask("PATCH", f"{PODS}/p", {**both, "status": {"phase": "Failed"}}, kind=STRATEGIC)
    assert (by_spec["status"]["phase"], by_spec["spec"]["activeDeadlineSeconds"]) == ("Running", 5)
    managers = {(each["manager"], each.get("subresource", "")) for each in by_spec["metadata"]["managedFields"]}
    assert {part for _, part in managers} == {"", "status"}


async def test_a_container_that_has_ended_for_good_stays_ended(api: Api) -> None:
    await api.ask("POST", PODS, pod(restartPolicy="Never"))
    ended = {"status": {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}}
    running = {"status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/status", ended, kind=MERGE))[0] == 200
    code, refused = await api.ask("PATCH", f"{PODS}/p/status", running, kind=MERGE)
    assert (code, causes(refused)[0][1]) == (422, "status.containerStatuses[0].state")


async def test_ephemeral_containers_are_added_by_their_own_door(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    given = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox:1"}], "hostNetwork": True}}
    code, made = await api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", given, kind=STRATEGIC)
    assert code == 200
    assert made["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert "hostNetwork" not in made["spec"]
    other = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox:2"}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", other, kind=STRATEGIC))[0] == 422
    assert (await api.ask("POST", PODS, pod("q", ephemeralContainers=[{"name": "d", "image": "i"}])))[0] == 422


async def test_resources_are_changed_by_their_own_door(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    await api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    more = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert (await api.ask("PATCH", f"{PODS}/p", more, kind=STRATEGIC))[0] == 422
    _, made = await api.ask("PATCH", f"{PODS}/p/resize", more, kind=STRATEGIC)
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    guaranteed = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    given = {"spec": {"containers": [{"name": "c", "resources": guaranteed}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/resize", given, kind=STRATEGIC))[0] == 422


async def test_a_pod_is_evicted(api: Api) -> None:
    await api.ask("POST", PODS, pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await api.ask("POST", f"{PODS}/p/eviction", eviction))[0] == 201
    assert (await api.ask("GET", f"{PODS}/p"))[0] == 404


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    await api.ask("POST", PODS, pod("a", nodeName="n1"))
    await api.ask("POST", PODS, pod("b"))
    for query, names in (
        ("spec.nodeName%3Dn1", ["a"]),
        ("spec.nodeName%3D", ["b"]),
        ("status.phase%3DPending,metadata.name!%3Da", ["b"]),
        ("spec.hostNetwork%3Dfalse", ["a", "b"]),
    ):
        _, found = await api.ask("GET", f"/api/v1/pods?fieldSelector={query}")
        assert [each["metadata"]["name"] for each in found["items"]] == names


# --- others


async def test_an_event_is_one_object_in_two_groups(api: Api) -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Killed",
        "message": "too large",
        "source": {"component": "kubelet"},
    }
    await api.ask("POST", f"{NS}/events", core)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    _, new = await api.ask("GET", f"{events}/e")
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "too large", "p")
    await api.ask("PATCH", f"{events}/e", {"note": "much too large"}, kind=MERGE)
    _, old = await api.ask("GET", f"{NS}/events?fieldSelector=involvedObject.name%3Dp,source%3Dkubelet")
    assert [each["message"] for each in old["items"]] == ["much too large"]
    _, listed = await api.ask("GET", f"{events}?fieldSelector=regarding.name%3Dp")
    assert [each["note"] for each in listed["items"]] == ["much too large"]


async def test_a_secret_takes_plain_text_and_keeps_it_encoded(api: Api) -> None:
    _, made = await api.ask("POST", f"{NS}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (made["data"], made["type"]) == ({"a": base64.b64encode(b"b").decode()}, "Opaque")
    assert "stringData" not in made
    code, refused = await api.ask("PATCH", f"{NS}/secrets/s", {"type": "x/y"}, kind=MERGE)
    assert (code, causes(refused)) == (422, [("FieldValueInvalid", "type")])
    assert (await api.ask("POST", f"{NS}/secrets", {"metadata": {"name": "t"}, "data": {"a": "?"}}))[0] == 400
    tls = {"metadata": {"name": "t"}, "type": "kubernetes.io/tls"}
    code, refused = await api.ask("POST", f"{NS}/secrets", tls)
    assert [field for _, field in causes(refused)] == ["data[tls.crt]", "data[tls.key]"]


async def test_what_is_immutable_stays_as_it_is(api: Api) -> None:
    given = {"metadata": {"name": "c"}, "data": {"a": "b"}, "immutable": True}
    await api.ask("POST", f"{NS}/configmaps", given)
    for change in ({"data": {"a": "c"}}, {"immutable": None}, {"binaryData": {"x": "eA=="}}):
        assert (await api.ask("PATCH", f"{NS}/configmaps/c", change, kind=MERGE))[0] == 422
    labelled = {"metadata": {"labels": {"x": "y"}}}
    assert (await api.ask("PATCH", f"{NS}/configmaps/c", labelled, kind=MERGE))[0] == 200


async def test_services_never_share_an_address_and_give_it_back(api: Api) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}

    _, one = await api.ask("POST", f"{NS}/services", service("a"))
    address = one["spec"]["clusterIP"]
    assert address.startswith("10.96.")
    code, refused = await api.ask("POST", f"{NS}/services", service("b", clusterIP=address))
    assert (code, causes(refused)) == (422, [("FieldValueInvalid", "spec.clusterIPs")])
    code, refused = await api.ask("PATCH", f"{NS}/services/a", {"spec": {"clusterIP": "10.96.9.9"}}, kind=MERGE)
    assert code == 422
    await api.ask("DELETE", f"{NS}/services/a")
    assert (await api.ask("POST", f"{NS}/services", service("b", clusterIP=address)))[0] == 201
    _, headless = await api.ask("POST", f"{NS}/services", service("c", clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]
    _, outer = await api.ask("POST", f"{NS}/services", service("d", type="NodePort"))
    assert 30000 <= outer["spec"]["ports"][0]["nodePort"] < 32768


async def test_a_dry_run_of_a_service_takes_no_address(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    _, shown = await api.ask("POST", f"{NS}/services?dryRun=All", given)
    address = shown["spec"]["clusterIP"]
    given["spec"]["clusterIP"] = address  # type: ignore[index]
    assert (await api.ask("POST", f"{NS}/services", given))[0] == 201


async def test_a_namespace_ends_when_nothing_holds_it(api: Api) -> None:
    _, made = await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (await api.ask("GET", "/api/v1/namespaces/x/serviceaccounts/default"))[0] == 200
    _, going = await api.ask("DELETE", "/api/v1/namespaces/x")
    assert going["status"]["phase"] == "Terminating"
    assert (await api.ask("DELETE", "/api/v1/namespaces/x"))[0] == 409
    going["spec"]["finalizers"] = []
    assert (await api.ask("PUT", "/api/v1/namespaces/x/finalize", going))[0] == 200
    assert (await api.ask("GET", "/api/v1/namespaces/x"))[0] == 404


async def test_a_node_keeps_its_status_and_waits_to_be_ready(api: Api) -> None:
    given = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4000m"}}}
    _, made = await api.ask("POST", "/api/v1/nodes", given)
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_whoever_asks_for_a_certificate_is_written_down(api: Api) -> None:
    request = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----").decode()
    spec = {"request": request, "signerName": "a.b/c", "usages": ["client auth"], "username": "somebody else"}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    _, made = await api.ask("POST", path, {"metadata": {"name": "r"}, "spec": spec})
    assert made["spec"]["username"] == "admin"
    approved = {**made, "status": {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}}
    _, after = await api.ask("PUT", f"{path}/r/approval", approved)
    assert after["status"]["conditions"][0]["lastUpdateTime"]
    assert "certificate" not in after["status"]


async def test_a_certificate_request_may_have_any_name_that_can_stand_in_a_path(api: Api) -> None:
    request = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----").decode()
    spec = {"request": request, "signerName": "a.b/c", "usages": ["client auth"]}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for name, wanted in (("node-csr-SWFAXEq_VdvSS2qX-M", 201), ("a/b", 422), ("..", 422), ("a%b", 422), ("a\0b", 422)):
        code, answer = await api.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert code == wanted, answer


async def test_endpoints_have_addresses_and_ports_that_can_be(api: Api) -> None:
    subset = {"addresses": [{"ip": "10.0.0.1"}, {}], "notReadyAddresses": [{"ip": "x"}], "ports": [{"port": 70000}]}
    _, refused = await api.ask("POST", f"{NS}/endpoints", {"metadata": {"name": "e"}, "subsets": [subset]})
    assert [field for _, field in causes(refused)] == [
        "subsets[0].addresses[1].ip",
        "subsets[0].notReadyAddresses[0].ip",
        "subsets[0].ports[0].port",
    ]


async def test_a_null_in_a_list_or_map_is_the_empty_value(api: Api) -> None:
    _, made = await api.ask("POST", f"{NS}/configmaps", {"metadata": {"name": "c"}, "data": {"a": None, "b": "1"}})
    assert made["data"] == {"a": "", "b": "1"}


async def test_the_cluster_has_what_it_needs_from_the_start(api: Api) -> None:
    _, namespaces = await api.ask("GET", "/api/v1/namespaces")
    names = [each["metadata"]["name"] for each in namespaces["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    _, service = await api.ask("GET", f"{NS}/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    _, classes = await api.ask("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert [each["value"] for each in classes["items"]] == [2000000000, 2000001000]


async def test_a_service_may_become_a_mere_name_and_back(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("POST", f"{NS}/services", given)
    assert "clusterIP" not in name["spec"]
    back = {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}}
    _, address = await api.ask("PATCH", f"{NS}/services/a", back, kind=MERGE)
    assert address["spec"]["clusterIP"].startswith("10.96.")
    again = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("PATCH", f"{NS}/services/a", again, kind=MERGE)
    assert "clusterIP" not in name["spec"]


async def test_a_limit_range_fills_in_what_containers_leave_open_and_bounds_the_rest(api: Api) -> None:
    limit = {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
    _, made = await api.ask("POST", f"{NS}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "1"}
    _, small = await api.ask("POST", PODS, pod("a"))
    assert small["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    assert small["status"]["qosClass"] == "Burstable"
    assert "cpu limit for container c" in small["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    large = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]
    code, refused = await api.ask("POST", PODS, pod("b", containers=large))
    assert code == 403
    assert "maximum cpu usage per Container is 1, but limit is 2" in refused["message"]


async def test_amounts_are_read_and_written_in_one_way(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1500m", "memory": 1024, "pods": "2000m"}}}
    _, made = await api.ask("POST", f"{NS}/resourcequotas", quota)
    assert made["spec"]["hard"] == {"cpu": "1500m", "memory": "1024", "pods": "2"}
    bad = {"metadata": {"name": "r"}, "spec": {"hard": {"cpu": "much"}}}
    code, refused = await api.ask("POST", f"{NS}/resourcequotas", bad)
    assert code == 400
    assert "spec.hard.cpu: has to be an amount" in refused["message"]
