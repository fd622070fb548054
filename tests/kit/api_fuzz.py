"""What a hostile client sends, made from what a friendly one would: from a seed, so that a failure comes again."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

PATCHES: Final = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)
_PODS: Final = "/api/v1/namespaces/default/pods"
_SHARED: Final = "/api/v1/namespaces/default"
WEIRD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1e308, 1.5),
    *("", "a", "A_B", "\0", "\ud800x", "é" * 300, "x" * 5000, "1Gi", "-5", "1e9999", "0x10", "::1", "10.0.0.0/33"),
    *("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "$(A)", "../..", "a/b", "%", "\n"),
    *("k8s.io/" + "a" * 70, "999999999999999999999999h", "$patch"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {}}, {"a": [1]}, [1, "a", None], [{"name": None}], [{"name": []}]),
    *({"$patch": "delete"}, {"$patch": "replace"}, {"$retainKeys": ["a"]}, [{"$patch": "replace"}], {"name": "c"}),
)
_MEMBERS: Final = (
    *("x", "$patch", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "$retainKeys", "metadata"),
    *("spec", "status", "name", "labels", "annotations", "finalizers", "ownerReferences", "managedFields"),
    *("generateName", "deletionTimestamp", "creationTimestamp", "resourceVersion", "uid", "f:spec"),
)
_PARAMETERS: Final = (
    *("limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "pretty"),
    *("timeoutSeconds", "sendInitialEvents", "allowWatchBookmarks", "includeObject"),
)


class Ask(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    kind: str = "application/json"


_STORAGE: Final[dict[tuple[str, str, str], dict[str, Any]]] = {
    ("storage.k8s.io/v1", "/csidrivers", "CSIDriver"): {"spec": {"tokenRequests": [{"audience": "a"}]}},
    ("storage.k8s.io/v1", "/csinodes", "CSINode"): {
        "spec": {"drivers": [{"name": "d.io", "nodeID": "n", "allocatable": {"count": 1}}]}
    },
    ("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"): {
        "storageClassName": "x",
        "capacity": "1Gi",
    },
    ("storage.k8s.io/v1", "/volumeattachments", "VolumeAttachment"): {
        "spec": {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    },
    ("storage.k8s.io/v1", "/volumeattributesclasses", "VolumeAttributesClass"): {
        "driverName": "d.io",
        "parameters": {"a": "b"},
    },
}


def friendly() -> dict[str, dict[str, Any]]:
    """Objects that are as they should be, by the path of their collection."""
    container = {
        "name": "c",
        "image": "nginx:1",
        "ports": [{"name": "http", "containerPort": 80}],
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1"}},
        "livenessProbe": {"httpGet": {"port": "http"}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "cfg", "mountPath": "/c"}],
    }
    volumes = [{"name": "cfg", "configMap": {"name": "cm", "items": [{"key": "a", "path": "a"}]}}]
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    }
    pod = {"containers": [container], "volumes": volumes, "tolerations": [{"operator": "Exists"}], "affinity": affinity}
    pv = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    csr = {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K", "signerName": "a.io/b", "usages": ["any"]}
    subset = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}
    service = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], "type": "NodePort"}
    lease = {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-11-15T10:00:00.000000Z"}
    involved = {"kind": "Pod", "name": "web", "namespace": "default"}
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("/api/v1/namespaces", "v1/Namespace", {}),
        (_PODS, "v1/Pod", {"spec": pod}),
        (f"{_SHARED}/configmaps", "v1/ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "AAEC"}}),
        (f"{_SHARED}/secrets", "v1/Secret", {"stringData": {"k": "v"}, "data": {"a": "AAEC"}}),
        (f"{_SHARED}/serviceaccounts", "v1/ServiceAccount", {"imagePullSecrets": [{"name": "a"}]}),
        (f"{_SHARED}/services", "v1/Service", {"spec": service}),
        (f"{_SHARED}/endpoints", "v1/Endpoints", {"subsets": [subset]}),
        (f"{_SHARED}/events", "v1/Event", {"involvedObject": involved, "reason": "R", "message": "m", "count": 1}),
        (f"{_SHARED}/limitranges", "v1/LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}}]}}),
        (f"{_SHARED}/persistentvolumeclaims", "v1/PersistentVolumeClaim", {"spec": claim}),
        ("/api/v1/persistentvolumes", "v1/PersistentVolume", {"spec": pv}),
        (
            "/api/v1/nodes",
            "v1/Node",
            {"spec": {"podCIDR": "10.1.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]}},
        ),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1/Lease", {"spec": lease}),
        ("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1/RuntimeClass", {"handler": "runc"}),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1/PriorityClass", {"value": 1000}),
        ("/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1/StorageClass", {"provisioner": "x.io/y"}),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "certificates.k8s.io/v1/CertificateSigningRequest",
            {"spec": csr},
        ),
    )
    return _entitled((*rows, *_rarer()))


def _rarer() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    review = {"user": "u", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods"}}
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    rule = {"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    peer = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    subject = {"kind": "User", "user": {"name": "u"}}
    verbs = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    queue = {"limitResponse": {"type": "Queue", "queuing": {"queues": 64}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    contents: dict[tuple[str, str, str], dict[str, Any]] = {
        ("authentication.k8s.io/v1", "/tokenreviews", "TokenReview"): {"spec": {"token": "a"}},
        ("authorization.k8s.io/v1", "/subjectaccessreviews", "SubjectAccessReview"): {"spec": review},
        ("autoscaling/v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"): {
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
            "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[]"}},
        },
        ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"): {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"], "hostname": "h", "conditions": {"ready": True}}],
            "ports": [{"port": 80, "name": "http"}],
        },
        ("flowcontrol.apiserver.k8s.io/v1", "/flowschemas", "FlowSchema"): {
            "spec": {
                "priorityLevelConfiguration": {"name": "a"},
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": [subject], "resourceRules": [verbs]}],
            }
        },
        ("flowcontrol.apiserver.k8s.io/v1", "/prioritylevelconfigurations", "PriorityLevelConfiguration"): {
            "spec": {"type": "Limited", "limited": queue}
        },
        ("networking.k8s.io/v1", "ingresses", "Ingress"): {"spec": {"rules": [rule], "tls": [{"hosts": ["a.b"]}]}},
        ("networking.k8s.io/v1", "/ingressclasses", "IngressClass"): {
            "spec": {"controller": "a.b/c", "parameters": {"kind": "P", "name": "p"}}
        },
        ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"): {
            "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80, "endPort": 90}], "from": [peer]}]}
        },
        ("networking.k8s.io/v1", "/servicecidrs", "ServiceCIDR"): {"spec": {"cidrs": ["10.97.0.0/24"]}},
        **_devices(),
        **_STORAGE,
    }
    return tuple(
        (
            f"/apis/{version}{plural}" if plural.startswith("/") else f"/apis/{version}/namespaces/default/{plural}",
            f"{version}/{kind}",
            content,
        )
        for (version, plural, kind), content in contents.items()
    )


def _devices() -> dict[tuple[str, str, str], dict[str, Any]]:
    selectors = [{"cel": {"expression": "device.driver == 'd.io' && device.attributes['d.io'].x > 1"}}]
    request = {"name": "r", "exactly": {"deviceClassName": "x", "selectors": selectors}}
    either = {"name": "e", "firstAvailable": [{"name": "s", "deviceClassName": "x", "allocationMode": "All"}]}
    told = {"opaque": {"driver": "d.io", "parameters": {"a": 1}}}
    constraint = {"requests": ["r", "e/s"], "matchAttribute": "d.io/x"}
    asked = {"devices": {"requests": [request, either], "constraints": [constraint], "config": [told]}}
    attributes = {"x": {"int": 1}, "a.io/v": {"version": "1.0.0"}}
    offered = [{"name": "dev", "attributes": attributes, "capacity": {"m": {"value": "1Gi"}}}]
    pool = {"name": "p", "resourceSliceCount": 1, "generation": 1}
    version = "resource.k8s.io/v1"
    return {
        (version, "/deviceclasses", "DeviceClass"): {"spec": {"selectors": selectors, "config": [told]}},
        (version, "resourceclaims", "ResourceClaim"): {"spec": asked},
        (version, "resourceclaimtemplates", "ResourceClaimTemplate"): {"spec": {"spec": asked}},
        (version, "/resourceslices", "ResourceSlice"): {
            "spec": {"driver": "d.io", "nodeName": "n", "pool": pool, "devices": offered}
        },
    }


def _entitled(rows: tuple[tuple[str, str, dict[str, Any]], ...]) -> dict[str, dict[str, Any]]:
    made = {}
    for path, which, content in rows:
        version, _, kind = which.rpartition("/")
        named = {"name": "fuzzed", "labels": {"app": "web"}, "annotations": {"a": "b"}}
        metadata = {} if "AccessReview" in kind else named | content.get("metadata", {})
        made[path] = {"apiVersion": version, "kind": kind, **content, "metadata": metadata}
    return made


class Hostile:
    """Requests without end, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._objects = friendly()

    def requests(self) -> Iterator[Ask]:
        ways = (
            self._create,
            self._create,
            self._replace,
            self._patch,
            self._patch,
            self._patch,
            self._delete,
            self._get,
        )
        while True:
            path = self._random.choice(list(self._objects))
            yield from self._random.choice(ways)(path, self._objects[path])

    def _create(self, path: str, obj: dict[str, Any]) -> Iterator[Ask]:
        yield Ask("POST", path + self._query(), _bytes(self._spoiled(obj)))

    def _replace(self, path: str, obj: dict[str, Any]) -> Iterator[Ask]:
        yield Ask("PUT", f"{path}/fuzzed{self._part()}{self._query()}", _bytes(self._spoiled(obj)))

    def _patch(self, path: str, obj: dict[str, Any]) -> Iterator[Ask]:
        kind = self._random.choice(PATCHES)
        query = self._query()
        if "apply" in kind:
            query = f"?fieldManager=m{self._random.randint(0, 3)}{self._random.choice(('', '&force=true'))}"
        patch = self._operations(obj) if "json-patch" in kind else self._spoiled(obj)
        yield Ask("PATCH", f"{path}/fuzzed{self._part()}{query}", _bytes(patch), kind)

    def _delete(self, path: str, obj: dict[str, Any]) -> Iterator[Ask]:
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "x", "resourceVersion": "1"},
            "propagationPolicy": "Background",
            "dryRun": ["All"],
        }
        yield Ask("DELETE", f"{path}/fuzzed", _bytes(self._spoiled(options)))
        yield Ask("POST", path, _bytes(obj))

    def _get(self, path: str, obj: dict[str, Any]) -> Iterator[Ask]:
        values = [str(self._random.choice(WEIRD)).encode("utf-8", "surrogatepass") for _ in range(2)]
        names = self._random.sample(_PARAMETERS, 2)
        yield Ask(
            "GET", f"{path}?{'&'.join(f'{name}={quote(value)}' for name, value in zip(names, values, strict=True))}"
        )

    def _part(self) -> str:
        return self._random.choice(("", "", "/status"))

    def _query(self) -> str:
        return self._random.choice(("", "?dryRun=All", "?fieldValidation=Strict", "?fieldManager=m", "?force=true"))

    def _operations(self, obj: dict[str, Any]) -> Any:
        made = []
        for _ in range(self._random.randint(1, 4)):
            path = _pointer(self._random.choice(list(_places(obj))))
            other = self._random.choice((path, "", "/metadata", None))
            place = self._random.choice((path, f"{path}/-", f"{path}/0", f"{path}/-1", "", f"{path}/01", 5))
            name = self._random.choice(("add", "remove", "replace", "move", "copy", "test", "x"))
            made.append({"op": name, "path": place, "from": other, "value": self._value()})
        return self._spoiled(made) if self._random.random() < 0.2 else made

    def _spoiled(self, value: Any) -> Any:
        whole = copy.deepcopy(value)
        for _ in range(self._random.randint(1, 3)):
            places = [place for place in _places(whole) if place]
            if not places:
                break
            *way, last = self._random.choice(places)
            inside = whole
            for each in way:
                inside = inside[each]
            self._spoil(inside, last)
        return whole

    def _spoil(self, inside: Any, last: Any) -> None:
        chance = self._random.random()
        if chance < 0.6:
            inside[last] = self._value()
        elif chance < 0.7:
            del inside[last]
        elif isinstance(inside, list):
            inside.insert(0, self._value())
            inside.append(copy.deepcopy(inside[0]))
        elif chance < 0.9:
            inside[self._random.choice(_MEMBERS)] = self._value()
        else:
            inside[f"{last}x"] = inside[last]

    def _value(self) -> Any:
        return copy.deepcopy(self._random.choice(WEIRD))


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from _places(inner, (*way, name))


def _pointer(way: tuple[Any, ...]) -> str:
    return "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in way)


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()
