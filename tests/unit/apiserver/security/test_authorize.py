"""Who may do what: tables of cases for masters, nodes, bootstrap tokens, service accounts and strangers."""

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.requests.request_info import RequestInfo, request_info
from pykubelet.apiserver.requests.users import ANONYMOUS, User, authenticated
from pykubelet.apiserver.security.authorize import forbidden
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.security.node_restriction import fault, forbidden_labels
from pykubelet.apiserver.security.rbac.bootstrap import reconcile_policy
from pykubelet.apiserver.security.references import api_reference, references
from pykubelet.apiserver.status import ApiError

KEY = ec.generate_private_key(ec.SECP256R1())
ADMIN = authenticated("root", ("system:masters",))
NODE = authenticated("system:node:n1", ("system:nodes",))
NAMELESS = authenticated("somebody", ("system:nodes",))
OURSELVES = authenticated("kube-apiserver-kubelet-client")
ANONYMOUS_OURSELVES = User("kube-apiserver-kubelet-client")
"""As a kubelet may ask about it: a binding to a user asks for no group."""
BOOTSTRAP = authenticated("system:bootstrap:abcdef", ("system:bootstrappers",))
ROBOT = authenticated("system:serviceaccount:ns:robot", ("system:serviceaccounts",))

SECRET_USES = ("nodeStage", "nodePublish", "nodeExpand", "controllerPublish", "controllerExpand")
POD = {
    "serviceAccountName": "robot",
    "nodeName": "n1",
    "imagePullSecrets": [{"name": "pull"}],
    "containers": [
        {
            "name": "main",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "of-env", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "of-env-from"}}],
        }
    ],
    "volumes": [
        {"name": "a", "secret": {"secretName": "of-volume"}},
        {"name": "b", "projected": {"sources": [{"configMap": {"name": "of-projected"}}, {"serviceAccountToken": {}}]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
    ],
    "resourceClaims": [
        {"name": "shared", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "template"},
        {"name": "not-yet", "resourceClaimTemplateName": "template"},
    ],
}
MADE = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "mine-made-x7c2p"}]}


async def filled(c: TestCluster) -> ClusterAccess:
    await c.node("n1")
    await c.pod("mine", POD, status=MADE)
    await c.pod(
        "theirs",
        {
            **POD,
            "nodeName": "n2",
            "serviceAccountName": "other",
            "imagePullSecrets": [{"name": "x"}],
            "resourceClaims": [{"name": "a", "resourceClaimName": "theirs"}],
        },
    )
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    await c.pod("mirror", {"nodeName": "n1", "imagePullSecrets": [{"name": "greedy"}]}, metadata=mirror)
    claim = {"namespace": "default", "name": "claim"}
    secrets = {f"{use}SecretRef": {"name": use, "namespace": "vault"} for use in SECRET_USES}
    csi = {"driver": "disk.example.com", "volumeHandle": "h", **secrets}
    await c.add("", "persistentvolumes", {"metadata": {"name": "pv"}, "spec": {"claimRef": claim, "csi": csi}})
    for name, ref in (("free", {}), ("others", {"claimRef": {**claim, "namespace": "elsewhere"}})):
        used = {**csi, "nodeStageSecretRef": {"name": name, "namespace": "vault"}}
        await c.add("", "persistentvolumes", {"metadata": {"name": name}, "spec": {**ref, "csi": used}})
    old = {"targetPortal": "p", "iqn": "iqn.2024-01.a:b", "secretRef": {"name": "chap"}}
    await c.add("", "persistentvolumes", {"metadata": {"name": "old"}, "spec": {"claimRef": claim, "iscsi": old}})
    broken = c.resources.of("", "persistentvolumes").key("", "broken")
    await c.store.create(broken, b'{"kind": "PersistentVolume"')
    for node in ("n1", "n2"):
        source = {"persistentVolumeName": "pv"}
        spec = {"attacher": "disk.example.com", "nodeName": node, "source": source}
        await c.add("storage.k8s.io", "volumeattachments", {"metadata": {"name": f"on-{node}"}, "spec": spec})
        pool = {"name": node, "resourceSliceCount": 1}
        own: dict[str, Any] = {"driver": "gpu.example.com", "nodeName": node, "pool": pool}
        await c.add("resource.k8s.io", "resourceslices", {"metadata": {"name": f"of-{node}"}, "spec": own})
    access = ClusterAccess(c.backend, KEY, now=c.clock)
    await reconcile_policy(c.backend)
    return access


def asked(text: str) -> RequestInfo:
    method, _, path = text.partition(" ")
    path, _, query = path.partition("?")
    pairs = dict(part.split("=", 1) for part in query.split("&") if part)
    return request_info(method, path, pairs)


MINE = "/api/v1/namespaces/default"
CLAIM = f"{MINE}/persistentvolumeclaims/claim"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSR = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MAY: list[tuple[User, str]] = [
    (ADMIN, "DELETE /api/v1/nodes/n1"),
    (ADMIN, "GET /metrics"),
    (ANONYMOUS, "GET /livez"),
    (ANONYMOUS, "GET /version"),
    (ANONYMOUS_OURSELVES, "GET /api/v1/nodes/n1/proxy/run"),
    (ROBOT, "GET /api/v1"),
    (ROBOT, "GET /apis/apps/v1"),
    (ROBOT, "GET /openapi/v3"),
    (ROBOT, "GET /openid/v1/jwks"),
    (ROBOT, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    (OURSELVES, "GET /api/v1/nodes/n1/proxy/run"),
    (OURSELVES, "POST /api/v1/nodes/n1/proxy"),
    (OURSELVES, "GET /api/v1/nodes/n1/metrics"),
    (OURSELVES, "GET /api/v1/nodes/n1/log"),
    (OURSELVES, "GET /api/v1/nodes/n1/pods"),
    (OURSELVES, "GET /api/v1/nodes"),
    (BOOTSTRAP, f"POST {CSR}"),
    (BOOTSTRAP, f"GET {CSR}/x"),
    (NODE, f"GET {MINE}/pods/mine"),
    (NODE, "GET /api/v1/pods?fieldSelector=spec.nodeName=n1"),
    (NODE, "GET /api/v1/pods?fieldSelector=spec.nodeName=n1&watch=1"),
    (NODE, f"PATCH {MINE}/pods/mine/status"),
    (NODE, f"DELETE {MINE}/pods/mine"),
    (NODE, f"POST {MINE}/pods"),
    (NODE, "GET /api/v1/nodes/n1"),
    (NODE, "GET /api/v1/nodes?fieldSelector=metadata.name=n1&watch=1"),
    (NODE, "PATCH /api/v1/nodes/n1/status"),
    (NODE, f"GET {MINE}/secrets/pull"),
    (NODE, f"GET {MINE}/secrets/of-env"),
    (NODE, f"GET {MINE}/secrets/of-volume"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name=of-volume&watch=true"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name=pull"),
    (NODE, f"GET {MINE}/configmaps?fieldSelector=metadata.name=of-env-from&watch=true"),
    (NODE, f"GET {MINE}/configmaps?fieldSelector=metadata.name=of-projected"),
    (NODE, f"GET {MINE}/configmaps/of-env-from"),
    (NODE, f"GET {MINE}/configmaps/of-projected"),
    (NODE, f"GET {MINE}/persistentvolumeclaims/claim"),
    (NODE, "GET /api/v1/persistentvolumes/pv"),
    (NODE, "GET /apis/storage.k8s.io/v1/volumeattachments/on-n1"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/nodeStage"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/nodePublish"),
    (NODE, "GET /api/v1/namespaces/vault/secrets?fieldSelector=metadata.name=nodeExpand&watch=1"),
    (NODE, f"GET {MINE}/secrets/chap"),
    (NODE, f"PATCH {MINE}/persistentvolumeclaims/claim/status"),
    (NODE, f"PUT {MINE}/persistentvolumeclaims/claim/status"),
    (NODE, "PUT /apis/storage.k8s.io/v1/csinodes/n1"),
    (NODE, "GET /apis/storage.k8s.io/v1/csidrivers?watch=1"),
    (NODE, f"POST {MINE}/serviceaccounts/robot/token"),
    (NODE, f"PUT {LEASES}/n1"),
    (NODE, f"POST {LEASES}"),
    (NODE, f"POST {MINE}/events"),
    (NODE, "GET /api/v1/services?watch=1"),
    (NODE, "GET /apis/node.k8s.io/v1/runtimeclasses"),
    (NODE, f"GET {DEVICES}/shared"),
    (NODE, f"GET {DEVICES}/mine-made-x7c2p"),
    (NODE, f"GET {SLICES}/of-n1"),
    (NODE, f"PUT {SLICES}/of-n1"),
    (NODE, f"DELETE {SLICES}/of-n1"),
    (NODE, f"POST {SLICES}"),
    (NODE, f"GET {SLICES}?fieldSelector=spec.nodeName=n1&watch=1"),
    (NODE, f"DELETE {SLICES}?fieldSelector=spec.nodeName=n1"),
    (NODE, f"POST {CSR}"),
    (NODE, "POST /apis/authentication.k8s.io/v1/tokenreviews"),
    (NODE, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"),
]
MAY_NOT: list[tuple[User, str]] = [
    (ANONYMOUS, "GET /api"),
    (ANONYMOUS, f"GET {MINE}/pods"),
    (ANONYMOUS, "POST /livez"),
    (ANONYMOUS, "GET /readyz/etcd"),
    (ROBOT, f"GET {MINE}/pods"),
    (ROBOT, "GET /metrics"),
    (ROBOT, "POST /api/v1"),
    (ROBOT, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"),
    (OURSELVES, f"GET {MINE}/secrets/pull"),
    (OURSELVES, f"GET {MINE}/pods/mine"),
    (OURSELVES, f"POST {MINE}/pods/mine/exec"),
    (OURSELVES, "PATCH /api/v1/nodes/n1"),
    (OURSELVES, "PATCH /api/v1/nodes/n1/status"),
    (OURSELVES, "DELETE /api/v1/nodes/n1"),
    (OURSELVES, "GET /metrics"),
    (BOOTSTRAP, f"PUT {CSR}/x/approval"),
    (BOOTSTRAP, f"DELETE {CSR}/x"),
    (BOOTSTRAP, f"GET {MINE}/secrets/pull"),
    (BOOTSTRAP, "GET /api/v1/nodes"),
    (NAMELESS, f"GET {MINE}/pods/mine"),
    (NODE, f"GET {MINE}/pods/theirs"),
    (NODE, f"GET {MINE}/pods/none"),
    (NODE, "GET /api/v1/pods"),
    (NODE, "GET /api/v1/pods?fieldSelector=spec.nodeName=n2"),
    (NODE, "GET /api/v1/pods?fieldSelector=spec.nodeName!=n1"),
    (NODE, f"PUT {MINE}/pods/mine"),
    (NODE, f"POST {MINE}/pods/mine/exec"),
    (NODE, f"POST {MINE}/pods/mine/binding"),
    (NODE, f"DELETE {MINE}/pods"),
    (NODE, "GET /api/v1/nodes"),
    (NODE, "GET /api/v1/nodes/n2"),
    (NODE, "DELETE /api/v1/nodes/n1"),
    (NODE, "GET /api/v1/nodes/n1/proxy/metrics"),
    (NODE, f"GET {MINE}/secrets"),
    (NODE, "GET /api/v1/secrets"),
    (NODE, f"GET {MINE}/secrets?watch=true"),
    (NODE, f"GET {MINE}/configmaps?watch=true"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name=x"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name=x&watch=true"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name=greedy&watch=true"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=metadata.name!=x&watch=true"),
    (NODE, f"GET {MINE}/secrets?fieldSelector=type=Opaque&watch=true"),
    (NODE, "GET /api/v1/secrets?fieldSelector=metadata.name=pull&watch=true"),
    (NODE, "GET /api/v1/namespaces/other/secrets?fieldSelector=metadata.name=pull&watch=true"),
    (NODE, f"GET {MINE}/configmaps?fieldSelector=metadata.name=pull&watch=true"),
    (NODE, f"GET {MINE}/secrets/x"),
    (NODE, f"GET {MINE}/secrets/greedy"),
    (NODE, "GET /api/v1/namespaces/other/secrets/pull"),
    (NODE, f"PUT {MINE}/secrets/pull"),
    (NODE, f"POST {MINE}/serviceaccounts/other/token"),
    (NODE, f"POST {MINE}/serviceaccounts"),
    (NODE, f"PUT {LEASES}/n2"),
    (NODE, f"GET {LEASES}"),
    (NODE, "PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/n1"),
    (NODE, f"PUT {CSR}/x/approval"),
    (NODE, f"DELETE {MINE}/events/x"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/controllerPublish"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/controllerExpand"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/free"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/others"),
    (NODE, "GET /api/v1/namespaces/vault/secrets/chap"),
    (NODE, "GET /api/v1/namespaces/vault/secrets"),
    (NODE, "PUT /api/v1/namespaces/vault/secrets/nodeStage"),
    (NODE, f"GET {MINE}/persistentvolumeclaims"),
    (NODE, f"GET {MINE}/persistentvolumeclaims/claim/status"),
    (NODE, f"PATCH {MINE}/persistentvolumeclaims/claim"),
    (NODE, f"PATCH {MINE}/persistentvolumeclaims/another/status"),
    (NODE, "GET /api/v1/persistentvolumes"),
    (NODE, "GET /api/v1/persistentvolumes/others"),
    (NODE, "PATCH /api/v1/persistentvolumes/pv"),
    (NODE, "PUT /apis/storage.k8s.io/v1/csinodes/n2"),
    (NODE, "GET /apis/storage.k8s.io/v1/csinodes"),
    (NODE, "GET /apis/storage.k8s.io/v1/storageclasses"),
    (NODE, "GET /apis/storage.k8s.io/v1/volumeattachments/on-n2"),
    (NODE, "GET /apis/storage.k8s.io/v1/volumeattachments"),
    (NODE, "DELETE /apis/storage.k8s.io/v1/volumeattachments/on-n1"),
    (NODE, f"GET {DEVICES}/theirs"),
    (NODE, f"GET {DEVICES}"),
    (NODE, f"PATCH {DEVICES}/shared"),
    (NODE, f"PATCH {DEVICES}/shared/status"),
    (NODE, f"GET {SLICES}/of-n2"),
    (NODE, f"PATCH {SLICES}/of-n2"),
    (NODE, f"DELETE {SLICES}/of-n2"),
    (NODE, f"GET {SLICES}"),
    (NODE, f"GET {SLICES}?fieldSelector=spec.nodeName=n2"),
    (NODE, f"DELETE {SLICES}?fieldSelector=spec.driver=gpu.example.com"),
    (NODE, "GET /apis/resource.k8s.io/v1/deviceclasses"),
]


@virtual_time
async def test_whoever_may_is_let_in() -> None:
    async with cluster() as c:
        access = await filled(c)
        assert [(user.name, text) for user, text in MAY if await access.allowed(user, asked(text))] == []


@virtual_time
async def test_whoever_may_not_is_kept_out() -> None:
    async with cluster() as c:
        access = await filled(c)
        assert [(user.name, text) for user, text in MAY_NOT if not await access.allowed(user, asked(text))] == []


@virtual_time
async def test_with_its_last_pod_on_the_node_an_object_can_no_longer_be_watched() -> None:
    """As upstream: who may is decided when a watch begins. One that goes on ends with its time, minutes later."""
    async with cluster() as c:
        access = await filled(c)
        watch = asked(f"GET {MINE}/secrets?fieldSelector=metadata.name=of-volume&watch=true")
        assert not await access.allowed(NODE, watch)
        await c.remove(("", "pods"), await c.get("pods", "mine"), grace=0)
        assert "no relationship found" in await access.allowed(NODE, watch)


@virtual_time
async def test_a_refusal_says_who_cannot_do_what_and_why() -> None:
    async with cluster() as c:
        access = await filled(c)

        async def said(user: User, text: str) -> str:
            info = asked(text)
            return forbidden(info, await access.allowed(user, info)).message

        assert await said(NODE, f"GET {MINE}/pods/theirs") == (
            'pods "theirs" is forbidden: User "system:node:n1" cannot get resource "pods" in API group "" in the '
            "namespace \"default\": no relationship found between node 'n1' and this object"
        )
        assert await said(ROBOT, "GET /api/v1/nodes") == (
            'nodes is forbidden: User "system:serviceaccount:ns:robot" cannot list resource "nodes" in API group "" '
            "at the cluster scope"
        )
        assert await said(ROBOT, "GET /metrics") == (
            'forbidden: User "system:serviceaccount:ns:robot" cannot get path "/metrics"'
        )


# --- what nodes write


def mirror(**changes: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-of-n1", "controller": True}
    metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    pod: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}
    pod["metadata"] |= changes.pop("metadata", {})
    pod["spec"] |= changes
    return pod


def owned_by(**changes: Any) -> dict[str, Any]:
    return {"ownerReferences": [{**mirror()["metadata"]["ownerReferences"][0], **changes}]}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (mirror(), ""),
        (mirror(metadata={"annotations": {}}), "can only create mirror pods"),
        (mirror(nodeName="n2"), "spec.nodeName set to itself"),
        (mirror(metadata={"ownerReferences": []}), "with an owner reference set to itself"),
        (mirror(metadata=owned_by(name="n2")), "with an owner reference set to itself"),
        (mirror(metadata=owned_by(controller=False)), "controller owner reference"),
        (mirror(metadata=owned_by(uid="former")), "UID mismatch"),
        (mirror(metadata=owned_by(blockOwnerDeletion=True)), "blockOwnerDeletion"),
        (mirror(serviceAccountName="robot"), "reference serviceaccounts"),
        (mirror(imagePullSecrets=[{"name": "x"}]), "reference secrets"),
        (mirror(volumes=[{"name": "v", "configMap": {"name": "x"}}]), "can not create pods that reference configmaps"),
        (mirror(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}}]}}]), "reference secrets"),
        (mirror(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "e", "emptyDir": {}}]), ""),
        (mirror(volumes=[{"name": "v", "novel": {}}]), "reference unknown objects"),
    ],
)
@virtual_time
async def test_a_node_may_make_only_mirror_pods_of_its_own(pod: dict[str, Any], reason: str) -> None:
    async with cluster() as c:
        await c.node("n1")
        found = await fault("n1", asked(f"POST {MINE}/pods"), pod, None, c.backend.find)
        assert (reason in found) if reason else not found


LABELS = {"kubernetes.io/os": "linux", "mine": "1", "node.kubernetes.io/x": "1", "a.kubelet.kubernetes.io/y": "1"}


def test_a_node_may_set_labels_that_steer_nothing() -> None:
    assert forbidden_labels(LABELS, {}) == []
    assert forbidden_labels({"node-role.kubernetes.io/control-plane": ""}, {}) == [
        "node-role.kubernetes.io/control-plane"
    ]
    assert forbidden_labels({}, {"x.node-restriction.kubernetes.io/y": "1"}) == ["x.node-restriction.kubernetes.io/y"]
    assert forbidden_labels({"k8s.io/x": "1"}, {"k8s.io/x": "1"}) == []


@pytest.mark.parametrize(
    ("request_", "body", "live", "reason"),
    [
        ("PATCH /api/v1/nodes/n1", {"metadata": {"name": "n1"}}, {"metadata": {"name": "n1"}}, ""),
        ("PATCH /api/v1/nodes/n2", {"metadata": {"name": "n2"}}, {"metadata": {}}, "not allowed to modify node"),
        ("PATCH /api/v1/nodes/n1", {"spec": {"taints": []}}, {"spec": {"taints": [{"key": "a"}]}}, "modify taints"),
        ("POST /api/v1/nodes", {"metadata": {"name": "n2"}}, None, "not allowed to modify node"),
        ("POST /api/v1/nodes", {"metadata": {"name": "n1", "labels": {"k8s.io/x": ""}}}, None, "following labels"),
        ("POST /api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a"}]}}, None, ""),
        (f"PATCH {MINE}/pods/p/status", {"spec": {}}, {"spec": {"nodeName": "n2"}}, "can only update pod status"),
        (f"PATCH {MINE}/pods/p/status", {"spec": {}}, {"spec": {"nodeName": "n1"}}, ""),
        (f"PATCH {MINE}/pods/p/status", {"metadata": {"labels": {"a": "b"}}}, {"spec": {"nodeName": "n1"}}, "labels"),
        (f"DELETE {MINE}/pods/p", None, {"spec": {"nodeName": "n2"}}, "can only delete pods"),
        (f"DELETE {MINE}/pods/p", None, {"spec": {"nodeName": "n1"}}, ""),
        (f"PATCH {CLAIM}/status", {"status": {"capacity": {"storage": "2Gi"}}}, {"status": {}}, ""),
        (f"PATCH {CLAIM}/status", {"status": {"conditions": [{"type": "Resizing"}]}}, {"status": {}}, ""),
        (f"PATCH {CLAIM}/status", {"status": {"allocatedResources": {"storage": "2Gi"}}}, {}, ""),
        (f"PATCH {CLAIM}/status", {"status": {"allocatedResourceStatuses": {"storage": "x"}}}, {}, ""),
        (f"PATCH {CLAIM}/status", {"status": {"phase": "Lost"}}, {"status": {"phase": "Bound"}}, "other than status"),
        (f"PATCH {CLAIM}/status", {"metadata": {"finalizers": []}}, {"metadata": {"finalizers": ["a"]}}, "other than"),
        (f"PATCH {CLAIM}/status", {"metadata": {"labels": {"a": "b"}}}, {}, "other than status.quantity"),
        (f"PATCH {CLAIM}", {"status": {}}, {"status": {}}, "may only update PVC status"),
        ("POST /apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n2"}}, None, "only access CSINode"),
        ("POST /apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n1"}}, None, ""),
        (f"POST {LEASES}", {"metadata": {"name": "n2"}}, None, "same name as the requesting node"),
        (f"PUT {LEASES}/n1", {"metadata": {"name": "n1"}}, None, ""),
        (f"POST {SLICES}", {"spec": {"nodeName": "n1"}}, None, ""),
        (f"POST {SLICES}", {"spec": {"nodeName": "n2"}}, None, "can only create ResourceSlice with the same NodeName"),
        (f"POST {SLICES}", {"spec": {"allNodes": True}}, None, "can only create ResourceSlice with the same NodeName"),
        (f"PUT {SLICES}/x", {"spec": {"nodeName": "n2"}}, None, "can only create ResourceSlice"),
        (f"DELETE {SLICES}/x", None, {"spec": {"nodeName": "n1"}}, ""),
        (
            f"DELETE {SLICES}",
            None,
            {"spec": {"nodeName": "n2"}},
            "can only delete ResourceSlice with the same NodeName",
        ),
    ],
)
@virtual_time
async def test_a_node_writes_only_what_is_its_own(
    request_: str, body: dict[str, Any] | None, live: dict[str, Any] | None, reason: str
) -> None:
    async with cluster() as c:
        found = await fault("n1", asked(request_), body, live, c.backend.find)
        assert (reason in found) if reason else not found


@virtual_time
async def test_a_node_gets_tokens_only_for_its_own_pods_and_their_audiences() -> None:
    async with cluster() as c:
        access = await filled(c)
        info = asked(f"POST {MINE}/serviceaccounts/robot/token")

        def body(name: str, uid: str, *audiences: str) -> dict[str, Any]:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
            return {"spec": {"boundObjectRef": reference, "audiences": list(audiences)}}

        await access.check_body(NODE, info, body("mine", "uid-of-mine"), None)
        wrongs: list[dict[str, Any]] = [
            {"spec": {}},
            body("mine", ""),
            body("mine", "former"),
            body("theirs", "uid-of-theirs"),
            body("mine", "uid-of-mine", "vault"),
        ]
        for wrong in wrongs:
            with pytest.raises(ApiError) as caught:
                await access.check_body(NODE, info, wrong, None)
            assert caught.value.code == 403
        await access.check_body(ADMIN, info, {"spec": {}}, None)


@virtual_time
async def test_a_node_gets_tokens_for_those_to_whom_a_driver_of_its_pod_shows_itself() -> None:
    async with cluster() as c:
        access = await filled(c)
        info = asked(f"POST {MINE}/serviceaccounts/robot/token")

        async def told(audience: str) -> str:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "uid-of-mine"}
            body = {"spec": {"boundObjectRef": reference, "audiences": [audience]}}
            try:
                await access.check_body(NODE, info, body, None)
            except ApiError as error:
                return error.message
            return ""

        assert 'error validating audience "vault": persistentvolumeclaim "claim" not found' in await told("vault")
        claim = {"metadata": {"name": "claim", "namespace": "default"}, "spec": {"volumeName": "pv"}}
        await c.add("", "persistentvolumeclaims", claim)
        assert 'csidriver.storage.k8s.io "disk.example.com" not found' in await told("vault")
        driver = {"metadata": {"name": "disk.example.com"}, "spec": {"tokenRequests": [{"audience": "vault"}]}}
        await c.add("storage.k8s.io", "csidrivers", driver)
        assert not await told("vault")
        assert "is not authorized to request tokens for this audience" in await told("bank")
        rule = {"apiGroups": [""], "resources": ["bank"], "verbs": ["request-serviceaccounts-token-audience"]}
        rbac, ref = "rbac.authorization.k8s.io", {"kind": "ClusterRole", "name": "banker"}
        await c.add(rbac, "clusterroles", {"metadata": {"name": "banker"}, "rules": [rule]})
        subject = {"kind": "Group", "name": "system:nodes", "apiGroup": rbac}
        binding = {"metadata": {"name": "b"}, "roleRef": {"apiGroup": rbac, **ref}, "subjects": [subject]}
        await c.add(rbac, "clusterrolebindings", binding)
        await asyncio.sleep(1)
        assert not await told("bank")


def test_what_a_pod_refers_to_is_found_everywhere_in_it() -> None:
    assert set(references({"metadata": {"name": "p"}, "spec": POD, "status": MADE})) == {
        ("serviceaccounts", "robot"),
        ("secrets", "pull"),
        ("secrets", "of-env"),
        ("secrets", "of-volume"),
        ("configmaps", "of-env-from"),
        ("configmaps", "of-projected"),
        ("persistentvolumeclaims", "claim"),
        ("resourceclaims", "shared"),
        ("resourceclaims", "mine-made-x7c2p"),
    }
    assert api_reference({"spec": {"containers": []}}) == ""


@pytest.mark.parametrize("kind", ["pods", "persistentvolumes"])
@virtual_time
async def test_others_get_their_turn_while_many_new_ones_are_looked_into(kind: str) -> None:
    async with cluster() as c:
        for number in range(1000):
            if kind == "pods":
                await c.pod(f"p{number}", {"nodeName": "n2"})
            else:
                await c.add("", kind, {"metadata": {"name": f"v{number}"}, "spec": {}})
        access, turns = await filled(c), 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        waiting = asyncio.create_task(others())
        assert await access.allowed(NODE, asked(f"GET {MINE}/secrets/none"))
        first = turns
        assert first >= 4
        assert await access.allowed(NODE, asked(f"GET {MINE}/secrets/none"))
        assert turns - first < first, "what is known needs no second look"
        waiting.cancel()
