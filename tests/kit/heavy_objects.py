"""Heavy requests about pods and other objects that the server knows the types of."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from kit.api_fuzz import Ask

_CORE: Final = "/api/v1/namespaces/default"
_DRY: Final = "?dryRun=All"


def pod(name: str = "heavy", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "example/web:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def config_map(name: str = "heavy", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def heavy_objects(size: int) -> Iterator[tuple[str, Ask]]:
    for part in (
        _pod_parts,
        _pod_volumes,
        _pod_lists,
        _pod_scheduling,
        _pod_oddities,
        _data,
        _managed,
        _others,
        _options,
    ):
        yield from part(size)


class _Many:
    """As many as there is room for."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, make: Callable[[int], Any]) -> list[Any]:
        one = len(json.dumps(make(100_000))) + 1
        return [make(n) for n in range(self._size // one)]


def _ask(_name: str = "", **spec: Any) -> Ask:
    return Ask("POST", f"{_CORE}/pods{_DRY}", _bytes(pod(_name or "new", **spec)))


_BASE: Final = pod()["spec"]["containers"][0]


def _pod_parts(size: int) -> Iterator[tuple[str, Ask]]:
    many = _Many(size)
    for field in ("labels", "annotations"):
        body = pod("new")
        body["metadata"][field] = {f"k{n}": "v" for n in range(size // 16)}
        yield f"pod, {field}", Ask("POST", f"{_CORE}/pods{_DRY}", _bytes(body))
    body = pod("new")
    body["metadata"]["finalizers"] = many(lambda n: f"a.io/f{n}")
    yield "pod, finalizers", Ask("POST", f"{_CORE}/pods{_DRY}", _bytes(body))
    body = pod("new")
    body["metadata"]["ownerReferences"] = many(
        lambda n: {"apiVersion": "v1", "kind": "A", "name": f"a{n}", "uid": f"u{n}"}
    )
    yield "pod, owners", Ask("POST", f"{_CORE}/pods{_DRY}", _bytes(body))
    yield "pod, containers", _ask(containers=many(lambda n: {**_BASE, "name": f"c{n}"}))
    yield "pod, containers of one name", _ask(containers=many(lambda n: _BASE))
    yield "pod, containers that are empty", _ask(containers=many(lambda n: {}))
    yield "pod, environment", _ask(containers=[{**_BASE, "env": many(lambda n: {"name": f"E{n}", "value": "v"})}])
    yield "pod, environment of nothing", _ask(containers=[{**_BASE, "env": many(lambda n: {"name": "", "value": ""})}])
    ports = many(lambda n: {"containerPort": n % 65535 + 1, "name": f"p{n}"})
    yield "pod, ports", _ask(containers=[{**_BASE, "ports": ports}])
    host_ports = many(lambda n: {"containerPort": n % 65535 + 1, "hostPort": n % 65535 + 1})
    yield "pod, host ports", _ask(containers=[{**_BASE, "ports": host_ports}])


def _pod_volumes(size: int) -> Iterator[tuple[str, Ask]]:
    many = _Many(size)
    yield "pod, volumes", _ask(volumes=many(lambda n: {"name": f"v{n}", "emptyDir": {}}))
    mounts = many(lambda n: {"name": f"v{n}", "mountPath": f"/m{n}"})
    yield "pod, mounts", _ask(containers=[{**_BASE, "volumeMounts": mounts}])
    half = [{"name": f"v{n}", "emptyDir": {}} for n in range(size // 90)]
    half_mounts = [{"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(size // 90)]
    yield "pod, volumes with mounts", _ask(volumes=half, containers=[{**_BASE, "volumeMounts": half_mounts}])
    items = [{"key": f"k{n}", "path": f"p{n}"} for n in range(size // 34)]
    yield "pod, items of a volume", _ask(volumes=[{"name": "v", "configMap": {"name": "c", "items": items}}])


def _pod_lists(size: int) -> Iterator[tuple[str, Ask]]:
    many = _Many(size)
    yield "pod, tolerations", _ask(tolerations=many(lambda n: {"key": f"k{n}", "operator": "Exists"}))
    yield "pod, readiness gates", _ask(readinessGates=many(lambda n: {"conditionType": f"a.io/t{n}"}))
    yield "pod, scheduling gates", _ask(schedulingGates=many(lambda n: {"name": f"a.io/t{n}"}))
    yield "pod, node selector", _ask(nodeSelector={f"k{n}": "v" for n in range(size // 16)})
    yield "pod, pull secrets", _ask(imagePullSecrets=many(lambda n: {"name": f"s{n}"}))
    yield "pod, host aliases", _ask(hostAliases=many(lambda n: {"ip": "10.0.0.1", "hostnames": [f"h{n}"]}))
    yield "pod, arguments", _ask(containers=[{**_BASE, "args": many(lambda n: f"a{n}")}])
    yield "pod, one argument", _ask(containers=[{**_BASE, "args": ["$(" * (size // 2)]}])
    yield "pod, a long image", _ask(containers=[{**_BASE, "image": "a/" * (size // 2)}])
    yield "pod, a long name", _ask("a." * (size // 2))
    yield (
        "pod, a long mount path",
        _ask(containers=[{**_BASE, "volumeMounts": [{"name": "v", "mountPath": "/.." * (size // 3)}]}]),
    )
    yield "pod, a long host name", _ask(hostname="a-" * (size // 2))


def _pod_scheduling(size: int) -> Iterator[tuple[str, Ask]]:
    many = _Many(size)
    amounts = {f"example.com/r{n}": "1" for n in range(size // 27)}
    yield "pod, resources", _ask(containers=[{**_BASE, "resources": {"limits": amounts}}])
    yield "pod, a long amount", _ask(containers=[{**_BASE, "resources": {"limits": {"cpu": "1" * size}}}])
    odd = {f"example.com/r{n}": "1" * 200 for n in range(size // 230)}
    yield "pod, long amounts", _ask(containers=[{**_BASE, "resources": {"limits": odd}}])
    terms = many(lambda n: {"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["a"]}]})
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    yield "pod, affinity terms", _ask(affinity={"nodeAffinity": {needed: {"nodeSelectorTerms": terms}}})
    values = {"key": "k", "operator": "In", "values": many(lambda n: f"v{n}")}
    one_term = {"nodeSelectorTerms": [{"matchExpressions": [values]}]}
    yield "pod, values of an affinity", _ask(affinity={"nodeAffinity": {needed: one_term}})
    anti = many(lambda n: {"topologyKey": f"k{n}", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["c"]})
    yield "pod, anti-affinity terms", _ask(affinity={"podAntiAffinity": {needed: anti}})
    spread = many(
        lambda n: {"maxSkew": 1, "topologyKey": f"k{n}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    )
    yield "pod, spread constraints", _ask(topologySpreadConstraints=spread)
    claims = many(lambda n: {"name": f"c{n}", "resourceClaimName": "x"})
    yield "pod, resource claims", _ask(resourceClaims=claims)
    sysctls = many(lambda n: {"name": f"net.a{n}", "value": "1"})
    yield "pod, sysctls", _ask(securityContext={"sysctls": sysctls})
    yield "pod, groups", _ask(securityContext={"supplementalGroups": [1] * (size // 3)})
    caps = {"capabilities": {"add": many(lambda n: f"C{n}")}}
    yield "pod, capabilities", _ask(containers=[{**_BASE, "securityContext": caps}])


def _pod_oddities(size: int) -> Iterator[tuple[str, Ask]]:
    many = _Many(size)
    sources = many(lambda n: {"configMap": {"name": f"c{n}", "items": [{"key": "a", "path": f"p{n}"}]}})
    yield "pod, projected sources", _ask(volumes=[{"name": "v", "projected": {"sources": sources}}])
    yield "pod, unknown fields", _ask(**{f"x{n}": "1" for n in range(size // 13)})
    nulls: dict[str, Any] = {"containers": [{**_BASE, "env": [None] * (size // 5)}]}
    yield "pod, nothing in a list", _ask(**nulls)
    wrong: dict[str, Any] = {"containers": [{**_BASE, "env": ["x"] * (size // 4)}]}
    yield "pod, text for maps", _ask(**wrong)
    yield "pod, fractions for numbers", _ask(securityContext={"supplementalGroups": [1.0] * (size // 5)})
    status = pod()
    status["status"] = {"conditions": many(lambda n: {"type": f"T{n}", "status": "True"})}
    yield "pod status, conditions", Ask("PUT", f"{_CORE}/pods/heavy/status{_DRY}", _bytes(status))
    statuses = many(
        lambda n: {"name": f"c{n}", "image": "a", "imageID": "b", "ready": True, "restartCount": 0, "state": {}}
    )
    status["status"] = {"containerStatuses": statuses}
    yield "pod status, containers", Ask("PUT", f"{_CORE}/pods/heavy/status{_DRY}", _bytes(status))
    grown = pod(tolerations=many(lambda n: {"key": f"k{n}", "operator": "Exists"}))
    yield "pod, replaced", Ask("PUT", f"{_CORE}/pods/heavy{_DRY}", _bytes(grown))
    ephemeral = pod(ephemeralContainers=many(lambda n: {"name": f"e{n}", "image": "a"}))
    yield "pod, ephemeral", Ask("PUT", f"{_CORE}/pods/heavy/ephemeralcontainers{_DRY}", _bytes(ephemeral))


def _data(size: int) -> Iterator[tuple[str, Ask]]:
    maps = f"{_CORE}/configmaps{_DRY}"
    data = {f"k{n}": "v" for n in range(size // 16)}
    yield "config map, keys", Ask("POST", maps, _bytes({**config_map("new"), "data": data}))
    yield "config map, one value", Ask("POST", maps, _bytes({**config_map("new"), "data": {"a": "v" * size}}))
    binary = {"binaryData": {"a": "AAAA" * (size // 4)}}
    yield "config map, bytes", Ask("POST", maps, _bytes({**config_map("new"), **binary}))
    both = {"data": {f"k{n}": "v" for n in range(size // 32)}, "binaryData": {f"k{n}": "" for n in range(size // 32)}}
    yield "config map, keys in both", Ask("POST", maps, _bytes({**config_map("new"), **both}))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, "stringData": data}
    yield "secret, keys", Ask("POST", f"{_CORE}/secrets{_DRY}", _bytes(secret))


def _managed(size: int) -> Iterator[tuple[str, Ask]]:
    maps = f"{_CORE}/configmaps{_DRY}"
    owned: dict[str, Any] = {f"f:k{n}": {} for n in range(size // 16)}
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": owned},
    }
    yield "managed fields, many of one", Ask("POST", maps, _bytes(config_map("new", managedFields=[entry])))
    small = {**entry, "fieldsV1": {"f:data": {"f:a": {}}}}
    managers = [{**small, "manager": f"m{n}"} for n in range(size // len(json.dumps(small)))]
    yield "managed fields, many managers", Ask("POST", maps, _bytes(config_map("new", managedFields=managers)))
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(150):
        inner["f:a"] = inner = {}
    deeps = [{**entry, "manager": f"m{n}", "fieldsV1": deep} for n in range(size // len(json.dumps(deep)))]
    yield "managed fields, deep", Ask("POST", maps, _bytes(config_map("new", managedFields=deeps)))
    values: dict[str, Any] = {f'v:"{"x" * 20}{n}"': {} for n in range(size // 40)}
    odd = {**entry, "fieldsV1": {"f:data": values}}
    yield "managed fields, values", Ask("POST", maps, _bytes(config_map("new", managedFields=[odd])))


def _others(size: int) -> Iterator[tuple[str, Ask]]:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"}}
    ports = [{"name": f"p{n}", "port": n % 65535 + 1} for n in range(size // 30)]
    yield "service, ports", Ask("POST", f"{_CORE}/services{_DRY}", _bytes({**service, "spec": {"ports": ports}}))
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]} for _ in range(size // 65)]
    endpoints: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "new"},
        "subsets": subsets,
    }
    yield "endpoints, subsets", Ask("POST", f"{_CORE}/endpoints{_DRY}", _bytes(endpoints))
    addresses = [{"ip": "10.0.0.1", "hostname": f"h{n}"} for n in range(size // 45)]
    endpoints["subsets"] = [{"addresses": addresses, "ports": [{"port": 80}]}]
    yield "endpoints, addresses", Ask("POST", f"{_CORE}/endpoints{_DRY}", _bytes(endpoints))
    slice_: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "new"},
        "addressType": "IPv4",
    }
    slice_["endpoints"] = [{"addresses": ["10.0.0.1"]} for _ in range(size // 33)]
    path = f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices{_DRY}"
    yield "endpoint slice", Ask("POST", path, _bytes(slice_))
    csr: dict[str, Any] = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "new"},
    }
    csr["spec"] = {"request": "A" * size, "signerName": "a.io/b", "usages": ["any"]}
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests{_DRY}"
    yield "signing request", Ask("POST", path, _bytes(csr))
    csr["spec"] = {"request": "AA==", "signerName": "a.io/b", "usages": [f"u{n}" for n in range(size // 10)]}
    yield "signing request, usages", Ask("POST", path, _bytes(csr))
    limits: dict[str, Any] = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "new"}}
    limits["spec"] = {"limits": [{"type": "Pod", "max": {f"a.io/{n}": "1"}} for n in range(size // 45)]}
    yield "limit range", Ask("POST", f"{_CORE}/limitranges{_DRY}", _bytes(limits))
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}
    node["spec"] = {"taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(size // 40)]}
    yield "node, taints", Ask("POST", f"/api/v1/nodes{_DRY}", _bytes(node))


def _options(size: int) -> Iterator[tuple[str, Ask]]:
    data = {f"k{n}": "v" for n in range(size // 16)}
    delete: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] * (size // 6)}
    yield "delete, options", Ask("DELETE", f"{_CORE}/configmaps/heavy{_DRY}", _bytes(delete))
    delete = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "x" * size}
    yield "delete, a policy", Ask("DELETE", f"{_CORE}/configmaps/heavy{_DRY}", _bytes(delete))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "heavy"}, "x": data}
    yield "eviction", Ask("POST", f"{_CORE}/pods/heavy/eviction{_DRY}", _bytes(eviction))
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["x"] * (size // 4)},
    }
    yield "token request", Ask("POST", f"{_CORE}/serviceaccounts/default/token", _bytes(request))
    sized = {
        "count": 1,
        "involvedObject": {"namespace": "default", "name": "x"},
        "reason": "r" * (size // 2),
        "message": "m" * (size // 2),
    }
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "new"}, **sized}
    yield "event", Ask("POST", f"{_CORE}/events{_DRY}", _bytes(event))


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value)
