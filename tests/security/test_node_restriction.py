"""A bootstrap token leaks. Whoever has it becomes a node, and wants a secret that no pod on it uses."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

from kit.rogue_node import MERGE, RogueNode
from kit.tls_world import World

DEFAULT: Final = "/api/v1/namespaces/default"
PODS: Final = f"{DEFAULT}/pods"
PRECIOUS: Final = f"{DEFAULT}/secrets/precious"
MIRROR: Final = "kubernetes.io/config.mirror"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NAMED: Final = {"name": "precious"}

VOLUMES: Final[dict[str, dict[str, Any]]] = {
    "azureFile": {"secretName": "precious", "shareName": "s"},
    "cephfs": {"monitors": ["m"], "secretRef": NAMED},
    "cinder": {"volumeID": "v", "secretRef": NAMED},
    "csi": {"driver": "d.example", "nodePublishSecretRef": NAMED},
    "flexVolume": {"driver": "d", "secretRef": NAMED},
    "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2024-01.a.b:c", "lun": 0, "secretRef": NAMED},
    "rbd": {"monitors": ["m"], "image": "i", "secretRef": NAMED},
    "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": NAMED},
    "secret": {"secretName": "precious"},
    "storageos": {"volumeName": "v", "secretRef": NAMED},
    "projected": {"sources": [{"secret": {"name": "precious"}}]},
}
CONTAINERS: Final[dict[str, dict[str, Any]]] = {
    "env": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "precious", "key": "k"}}}]},
    "envFrom": {"envFrom": [{"secretRef": NAMED}]},
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path).running() as running:
        await running.ask("POST", f"{DEFAULT}/secrets", body={"metadata": NAMED, "stringData": {"k": "v"}})
        yield running


async def mirror(rogue: RogueNode, name: str = "m", **spec: Any) -> dict[str, Any]:
    """As a node may make one, if the spec is harmless."""
    _, node = await rogue.ask("GET", f"/api/v1/nodes/{rogue.name}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": rogue.name, "uid": node["metadata"]["uid"], "controller": True}
    whole = {"nodeName": rogue.name, "containers": [{"name": "c", "image": "i"}], **spec}
    metadata = {"name": name, "annotations": {MIRROR: "x"}, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def spec_with(where: str) -> dict[str, Any]:
    if where == "imagePullSecrets":
        return {"imagePullSecrets": [NAMED]}
    if where in VOLUMES:
        return {"volumes": [{"name": "v", where: VOLUMES[where]}]}
    part, _, what = where.partition(".")
    container = {"name": "d", "image": "i", **CONTAINERS[what]}
    return {part: [container], **({"containers": [{"name": "c", "image": "i"}]} if part != "containers" else {})}


WAYS: Final = [
    "imagePullSecrets",
    *VOLUMES,
    *(f"{part}.{what}" for part in ("containers", "initContainers", "ephemeralContainers") for what in CONTAINERS),
]


async def test_a_mirror_pod_opens_no_secret_whatever_field_names_it(rogue: RogueNode) -> None:
    """Neither the node nor anybody else makes one that refers to it."""
    for where in WAYS:
        pod = await mirror(rogue, **spec_with(where))
        for code, refused in (await rogue.ask("POST", PODS, pod), await rogue.world.ask("POST", PODS, body=pod)):
            assert (code, "a mirror pod may not reference secrets" in refused["message"]) == (403, True), where
    assert (await rogue.ask("GET", PRECIOUS))[0] == 403


async def test_a_mirror_pod_that_is_there_opens_nothing_and_stays_one(rogue: RogueNode) -> None:
    """One from days when they were let in: neither the node nor anybody else turns it into another pod."""
    pod = await mirror(rogue, **spec_with("cephfs"))
    pod["metadata"]["namespace"] = "default"
    await rogue.world.add("pods", pod)
    assert (await rogue.ask("GET", PRECIOUS))[0] == 403
    for change in ({MIRROR: None}, {MIRROR: "y"}):
        patch = {"metadata": {"annotations": change}}
        for part in ("/status", "", "/ephemeralcontainers", "/resize"):
            code, _ = await rogue.ask("PATCH", f"{PODS}/m{part}", patch, MERGE)
            assert code in (403, 422), part
        _, live = await rogue.ask("GET", f"{PODS}/m")
        live["metadata"]["annotations"] = {key: value for key, value in change.items() if value}
        assert (await rogue.ask("PUT", f"{PODS}/m/status", live))[0] == 422
        assert (await rogue.world.ask("PUT", f"{PODS}/m", body=live))[0] == 422
    assert (await rogue.ask("GET", PRECIOUS))[0] == 403
    code, _ = await rogue.ask("PATCH", f"{PODS}/m/status", {"status": {"phase": "Running"}}, MERGE)
    assert code == 200


async def test_a_pod_that_was_sent_to_the_node_opens_what_it_names(rogue: RogueNode) -> None:
    """The other side: a node can do its work."""
    spec = {"nodeName": rogue.name, "containers": [{"name": "c", "image": "i"}], **spec_with("rbd")}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "real"}, "spec": spec}
    assert (await rogue.world.ask("POST", PODS, body=pod))[0] == 201
    assert (await rogue.ask("GET", PRECIOUS))[0] == 200
    code, refused = await rogue.ask("PATCH", f"{PODS}/real/status", {"metadata": {"annotations": {MIRROR: "x"}}}, MERGE)
    assert (code, "may not add mirror pod annotation" in refused["message"]) == (422, True)


NODE: Final = "/api/v1/nodes"
OWN: Final = f"{NODE}/n9"
OTHER: Final = f"{NODE}/n1"
CSI: Final = "/apis/storage.k8s.io/v1/csinodes"
REQUEST: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
TOKEN: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
BINDING: Final = {"metadata": {"name": "waiting"}, "target": {"kind": "Node", "name": "n9"}}
EVICTION: Final = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
CONTAINER: Final = {"name": "c", "image": "i"}
LABELS: Final = {"metadata": {"labels": {"a": "b"}}}
TRIES: Final[list[tuple[str, str, Any]]] = [
    # what others have
    ("GET", f"{DEFAULT}/secrets", None),
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/secrets?fieldSelector=metadata.name=precious", None),
    ("GET", f"{DEFAULT}/secrets?watch=1&fieldSelector=metadata.name=precious", None),
    ("GET", "/api/v1/namespaces/kube-system/secrets", None),
    ("GET", "/api/v1/watch/namespaces/default/secrets/precious", None),
    ("GET", f"{DEFAULT}/secrets?fieldSelector=metadata.name%3Dprecious,metadata.name%3Dused", None),
    ("GET", "/api/v1/watch/nodes", None),
    ("GET", f"{DEFAULT}/configmaps", None),
    ("GET", "/api/v1/namespaces", None),
    ("GET", f"{DEFAULT}/serviceaccounts/default", None),
    ("GET", NODE, None),
    ("GET", OTHER, None),
    ("GET", f"{NODE}?watch=1", None),
    ("GET", PODS, None),
    ("GET", f"{PODS}/x", None),
    ("GET", "/api/v1/pods?fieldSelector=spec.nodeName=n1", None),
    ("GET", "/api/v1/pods?fieldSelector=spec.nodeName!=n9", None),
    ("GET", f"{PODS}/x/log", None),
    ("GET", f"{OTHER}/proxy/metrics", None),
    ("GET", f"{OWN}/proxy/metrics", None),
    ("GET", f"{PODS}/x/proxy/", None),
    ("GET", f"{LEASES}", None),
    ("GET", f"{LEASES}/n1", None),
    ("GET", "/metrics", None),
    # what others have to do with
    ("DELETE", f"{PODS}/x", None),
    ("DELETE", PODS, None),
    ("PATCH", f"{PODS}/x", {"spec": {"nodeName": "n9"}}),
    ("PATCH", f"{PODS}/x/status", {"status": {"phase": "Failed"}}),
    ("PATCH", f"{PODS}/x/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}),
    ("PATCH", f"{PODS}/x/resize", {"spec": {"containers": []}}),
    ("POST", f"{PODS}/x/eviction", EVICTION),
    ("POST", f"{PODS}/waiting/binding", BINDING),
    ("POST", f"{DEFAULT}/bindings", BINDING),
    ("POST", f"{PODS}/x/exec?command=id&container=main", None),
    ("POST", PODS, {"metadata": {"name": "p"}, "spec": {"nodeName": "n9", "containers": [CONTAINER]}}),
    ("PATCH", OTHER, LABELS),
    ("PATCH", f"{OTHER}/status", {"status": {"phase": "Running"}}),
    ("DELETE", OTHER, None),
    ("POST", NODE, {"metadata": {"name": "another"}}),
    ("POST", LEASES, {"metadata": {"name": "n1"}}),
    ("PUT", f"{LEASES}/n1", {"metadata": {"name": "n1"}}),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "n9"}}),
    ("DELETE", f"{CSI}/n1", None),
    ("POST", f"{DEFAULT}/serviceaccounts/default/token", TOKEN),
    ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", TOKEN),
    ("POST", f"{DEFAULT}/secrets", {"metadata": {"name": "mine"}}),
    ("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "mine"}}),
    ("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}),
    ("PATCH", f"{DEFAULT}/services/kubernetes", {"spec": {"externalIPs": ["1.2.3.4"]}}),
    ("PATCH", f"{DEFAULT}/endpoints/kubernetes", {"subsets": []}),
    ("PATCH", f"{DEFAULT}/persistentvolumeclaims/c/status", {"status": {"phase": "Lost"}}),
    ("PATCH", f"{REQUEST}/n9-1/approval", {"status": {"conditions": []}}),
    ("PATCH", f"{REQUEST}/n9-1", LABELS),
    ("DELETE", f"{REQUEST}/n9-1", None),
    # what would bring others' pods here
    ("DELETE", OWN, None),
    ("PATCH", OWN, {"spec": {"taints": []}}),
    ("PATCH", OWN, {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]}}),
    ("PATCH", OWN, {"metadata": {"labels": {"node-restriction.kubernetes.io/tier": "1"}}}),
    ("PATCH", f"{OWN}/status", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
    ("PATCH", OWN, {"metadata": {"labels": {"evil.k8s.io/x": "1"}}}),
    ("PATCH", OWN, {"spec": {"configSource": {"configMap": {"name": "a", "namespace": "b", "kubeletConfigKey": "c"}}}}),
]  # fmt: skip


async def test_a_node_stays_within_what_is_its_own(rogue: RogueNode) -> None:
    assert (await rogue.ask("GET", OWN))[1]["spec"]["taints"], "one tries to take them off"
    got_through = []
    for method, path, body in TRIES:
        code, refused = await rogue.ask(method, path, body, MERGE if method == "PATCH" else "application/json")
        if (code, refused["reason"]) != (403, "Forbidden"):
            got_through.append((method, path, code, refused))
    assert got_through == []


@pytest.mark.parametrize(
    "selectors",
    [
        "fieldSelector=metadata.name%3Dused&fieldSelector=metadata.name%3Dprecious",
        "fieldSelector=metadata.name%3Dprecious&fieldSelector=metadata.name%3Dused",
        "fieldSelector=metadata.name%3Dused,metadata.name!%3Dx&fieldSelector=",
        "fieldSelector=&fieldSelector=metadata.name%3Dused",
        "fieldSelector=metadata.name%3Dused&labelSelector=&resourceVersion=0",
    ],
)
async def test_what_was_allowed_is_what_is_shown(rogue: RogueNode, selectors: str) -> None:
    """One that the node may see, and another by its side: what was looked at is what is answered."""
    await rogue.world.ask("POST", f"{DEFAULT}/secrets", body={"metadata": {"name": "used"}})
    spec = {"nodeName": rogue.name, "containers": [CONTAINER], "imagePullSecrets": [{"name": "used"}]}
    assert (await rogue.world.ask("POST", PODS, body={"metadata": {"name": "real"}, "spec": spec}))[0] == 201
    code, found = await rogue.ask("GET", f"{DEFAULT}/secrets?{selectors}")
    if code == 200:
        assert [each["metadata"]["name"] for each in found["items"]] == ["used"]
    else:
        assert code == 403


@pytest.mark.parametrize("address", ["nonsense", "localhost", "127.1", "10.0.0.1/8", "10.0.0.1:80", "fe80::1%eth0"])
async def test_a_node_says_where_its_pods_are_in_addresses(rogue: RogueNode, address: str) -> None:
    spec = {"nodeName": rogue.name, "containers": [CONTAINER]}
    assert (await rogue.world.ask("POST", PODS, body={"metadata": {"name": "real"}, "spec": spec}))[0] == 201
    for status in ({"podIP": address, "podIPs": [{"ip": address}]}, {"hostIP": address, "hostIPs": [{"ip": address}]}):
        assert (await rogue.ask("PATCH", f"{PODS}/real/status", {"status": status}, MERGE))[0] == 422, status
    both = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}
    assert (await rogue.ask("PATCH", f"{PODS}/real/status", {"status": both}, MERGE))[0] == 422
    fine = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    assert (await rogue.ask("PATCH", f"{PODS}/real/status", {"status": fine}, MERGE))[0] == 200


async def test_a_token_is_for_a_pod_of_the_node_and_its_own_account(rogue: RogueNode) -> None:
    """A mirror pod is no reason for a token, and neither is another node's pod."""
    await rogue.ask("POST", PODS, await mirror(rogue))
    _, made = await rogue.ask("GET", f"{PODS}/m")
    _, theirs = await rogue.world.ask("GET", f"{PODS}/x")
    for pod in (made, theirs):
        metadata = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        asked = {**TOKEN, "spec": {"boundObjectRef": bound}}
        assert (await rogue.ask("POST", f"{DEFAULT}/serviceaccounts/default/token", asked))[0] == 403


async def test_a_bootstrap_token_opens_requests_for_certificates_and_nothing_else(rogue: RogueNode) -> None:
    for method, path, body in TRIES:
        code, _ = await rogue.ask(method, path, body, MERGE if method == "PATCH" else "application/json", rogue.token)
        assert code == 403, (method, path)
    assert (await rogue.ask("GET", REQUEST, token=rogue.token))[0] == 200


async def test_an_eviction_that_is_refused_costs_the_others_nothing(rogue: RogueNode) -> None:
    """Neither is a budget spent on it, nor is the pod of another node told that it has to go."""
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    labels = {"app": "x"}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    for path, body in (
        (PODS, {"metadata": {"name": "victim", "labels": labels}, "spec": spec}),
        (budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
    ):
        code, answer = await rogue.world.ask("POST", path, body=body)
        assert code == 201, answer
    merge = {"Content-Type": MERGE}
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    allowed = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    for path, status in ((f"{PODS}/victim", running), (f"{budgets}/b", {**allowed, "expectedPods": 2})):
        code, answer = await rogue.world.ask("PATCH", f"{path}/status", body={"status": status}, headers=merge)
        assert code == 200, answer
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "victim"}}
    code, answer = await rogue.ask("POST", f"{PODS}/victim/eviction", eviction)
    assert (code, "can only evict pods with spec.nodeName set to itself" in answer["message"]) == (403, True), answer
    _, pod = await rogue.world.ask("GET", f"{PODS}/victim")
    assert [each["type"] for each in pod["status"]["conditions"]] == ["Ready"]
    _, budget = await rogue.world.ask("GET", f"{budgets}/b")
    assert budget["status"]["disruptionsAllowed"] == 1
