"""Requests as heavy as the limits allow, one for each shape of a body: what one client may cost the others."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kit.api_fuzz import Ask
from kit.heavy_objects import config_map, heavy_objects, pod

LARGEST: Final = 2_900_000
_CORE: Final = "/api/v1/namespaces/default"
_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_YAML: Final = "application/yaml"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_DRY: Final = "?dryRun=All"


def shapes(size: int = LARGEST) -> dict[str, Ask]:
    """By name. `size`: about how many bytes each body has. They are about the pod `heavy` and the config map `heavy`,
    which have to be there, and none changes them for good."""
    return {name: ask for part in _PARTS for name, ask in part(size)}


def selectors(size: int) -> dict[str, str]:
    """Long queries, by name."""
    many = size // 8
    return {
        "labels, many requirements": "labelSelector=" + ",".join(f"a{n:05}=b" for n in range(size // 10)),
        "labels, many values": "labelSelector=a+in+(" + ",".join(f"b{n:06}" for n in range(many)) + ")",
        "labels, commas": "labelSelector=" + "," * (size - 50),
        "labels, brackets": "labelSelector=" + "a(" * (size // 2 - 50),
        "labels, spaces": "labelSelector=a" + "+" * (size - 50) + "!",
        "fields, many": "fieldSelector=" + ",".join("metadata.name!=b" for _ in range(size // 17)),
        "fields, backslashes": "fieldSelector=metadata.name=" + "\\" * (size - 100),
        "fields, spaces": "fieldSelector=" + "+" * (size - 50) + "x",
        "continue": "continue=" + "A" * (size - 50),
        "many parameters": "&".join(f"a{n}=b" for n in range(size // 10)),
    }


def _texts(size: int) -> Iterator[tuple[str, Ask]]:
    """JSON that need not mean anything, sent where anybody with a token may send something."""
    head = (
        b'{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",'
        b'"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}},"x":'
    )

    def ask(value: bytes) -> Ask:
        return Ask("POST", _REVIEW, head + value + b"}")

    yield "keys", ask(b"{" + b",".join(b'"k%d":1' % n for n in range(size // 12)) + b"}")
    yield "keys, each twice", ask(b"{" + b",".join(b'"k%d":1' % (n // 2) for n in range(size // 12)) + b"}")
    yield "one key again and again", ask(b"{" + b",".join([b'"a":1'] * (size // 6)) + b"}")
    yield "small maps with a key twice", ask(b"[" + b",".join([b'{"a":1,"a":2}'] * (size // 14)) + b"]")
    yield "deep lists", ask(b"[" * (size // 2) + b"]" * (size // 2))
    yield "lists 190 deep", ask(b"[" + b",".join([b"[" * 190 + b"]" * 190] * (size // 381)) + b"]")
    yield "maps 190 deep", ask(b"[" + b",".join([b'{"a":' * 190 + b"1" + b"}" * 190] * (size // 1142)) + b"]")
    yield "unclosed", ask(b'{"a":[' * (size // 6))
    yield "empty lists", ask(b"[" + b",".join([b"[]"] * (size // 3)) + b"]")
    yield "empty maps", ask(b"[" + b",".join([b"{}"] * (size // 3)) + b"]")
    yield "small numbers", ask(b"[" + b",".join([b"1"] * (size // 2)) + b"]")
    yield "long numbers", ask(b"[" + b",".join([b"9" * 4200] * (size // 4201)) + b"]")
    yield "one number", ask(b"9" * size)
    yield "fractions", ask(b"[" + b",".join([b"1.234567890123456789e-300"] * (size // 26)) + b"]")
    yield "long fraction", ask(b"0." + b"1" * size)
    yield "exponents", ask(b"[" + b",".join([b"1e308"] * (size // 6)) + b"]")
    yield "huge exponents", ask(b"[" + b",".join([b"1e99999999"] * (size // 11)) + b"]")
    yield "escapes", ask(b'"' + rb"\u0041\n\"" * (size // 10) + b'"')
    yield "halves of characters", ask(b'"' + rb"\ud800" * (size // 6) + b'"')
    yield "backslashes", ask(b'"' + rb"\\" * (size // 2) + b'"')
    yield "unicode", ask(('"' + "é漢😀" * (size // 9) + '"').encode())
    yield "short strings", ask(b"[" + b",".join([b'"ab"'] * (size // 5)) + b"]")
    yield "no UTF-8", ask(b'"' + b"\xff" * size + b'"')
    yield "spaces", ask(b" " * size + b"1")
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "a." * (size // 2)}}
    yield "a long token", Ask("POST", _TOKENS, _bytes(token))
    token["spec"] = {"token": "a", "audiences": ["b"] * (size // 5)}
    yield "many audiences", Ask("POST", _TOKENS, _bytes(token))
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    spec: dict[str, Any] = {"user": "u", "groups": [f"g{n}" for n in range(size // 10)]}
    spec["resourceAttributes"] = {"verb": "get", "resource": "pods"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    yield "many groups", Ask("POST", path, _bytes({**review, "spec": spec}))
    spec["groups"] = ["system:nodes"]
    spec["user"] = "system:node:" + "n" * size
    yield "a long user", Ask("POST", path, _bytes({**review, "spec": spec}))


def _patches(size: int) -> Iterator[tuple[str, Ask]]:
    def to(kind: str, body: Any, what: str = "configmaps/heavy") -> Ask:
        return Ask("PATCH", f"{_CORE}/{what}{_DRY}", _bytes(body), kind)

    labels = {f"k{n}": "v" for n in range(size // 16)}
    for name, kind in (("merge", _MERGE), ("strategic", _STRATEGIC)):
        yield f"{name} patch, keys", to(kind, {"data": labels})
        yield f"{name} patch, nulls", to(kind, {"data": dict.fromkeys(labels)})
        yield f"{name} patch, labels", to(kind, {"metadata": {"labels": labels}})
        deep: Any = {}
        for _ in range(190):
            deep = {"a": deep}
        text = json.dumps(deep)
        body = '{"data":{' + ",".join(f'"k{n}":{text}' for n in range(size // (len(text) + 10))) + "}}"
        yield f"{name} patch, deep", Ask("PATCH", f"{_CORE}/configmaps/heavy{_DRY}", body.encode(), kind)
    env = [{"name": f"E{n}", "value": "v"} for n in range(size // 32)]
    yield (
        "strategic patch, environment",
        to(_STRATEGIC, {"spec": {"containers": [{"name": "c", "env": env}]}}, "pods/heavy"),
    )
    containers = [{"name": f"c{n}", "image": "a"} for n in range(size // 34)]
    yield "strategic patch, containers", to(_STRATEGIC, {"spec": {"containers": containers}}, "pods/heavy")
    same = [{"name": "c", "image": "a"} for n in range(size // 30)]
    yield "strategic patch, one container", to(_STRATEGIC, {"spec": {"containers": same}}, "pods/heavy")
    order = [{"name": f"c{n}"} for n in range(size // 50)]
    ordered: Any = {"spec": {"$setElementOrder/containers": order, "containers": containers[: size // 80]}}
    yield "strategic patch, order", to(_STRATEGIC, ordered, "pods/heavy")
    deletes = [{"name": f"c{n}", "$patch": "delete"} for n in range(size // 38)]
    yield "strategic patch, deletes", to(_STRATEGIC, {"spec": {"containers": deletes}}, "pods/heavy")
    finalizers = [f"a.io/f{n}" for n in range(size // 14)]
    yield "strategic patch, finalizers", to(_STRATEGIC, {"metadata": {"finalizers": finalizers}})
    unwanted = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}}
    yield "strategic patch, unwanted", to(_STRATEGIC, unwanted)
    retained = {
        "data": {"$retainKeys": [f"k{n}" for n in range(size // 24)], **{f"k{n}": "v" for n in range(size // 30)}}
    }
    yield "strategic patch, retained keys", to(_STRATEGIC, retained)
    conditions = [{"type": f"T{n}", "status": "True"} for n in range(size // 34)]
    told = {"status": {"conditions": conditions}}
    yield "strategic patch, conditions", to(_STRATEGIC, told, "pods/heavy/status")


def _operations(size: int) -> Iterator[tuple[str, Ask]]:
    def to(kind: str, body: Any) -> Ask:
        return Ask("PATCH", f"{_CORE}/configmaps/heavy{_DRY}", _bytes(body), kind)

    yield "operations, too many", to(_JSON_PATCH, [{"op": "test", "path": "/a"}] * (size // 28))
    added = [{"op": "add", "path": f"/data/k{n}", "value": "v" * (size // 10_000 - 60)} for n in range(9_999)]
    yield "operations, adds", to(_JSON_PATCH, added)
    yield "operations, tests", to(_JSON_PATCH, _tested(size))
    long = [{"op": "add", "path": "/data" + "/a" * (size // 20_000), "value": 1}] * 9_000
    yield "operations, long paths", to(_JSON_PATCH, long)
    yield "operations, one long path", to(_JSON_PATCH, [{"op": "test", "path": "/a" * (size // 2)}])
    tildes = [{"op": "test", "path": "/data/" + "~1~0" * (size // 4)}]
    yield "operations, tildes", to(_JSON_PATCH, tildes)
    yield "operations, copies", to(_JSON_PATCH, _copied(size))
    moved: list[Any] = [{"op": "add", "path": "/x", "value": list(range(size // 10))}]
    moved += [{"op": "move", "from": "/x/0", "path": "/x/-"}] * 9_990
    yield "operations, moves in a long list", to(_JSON_PATCH, moved)
    inserted: list[Any] = [{"op": "add", "path": "/x", "value": [1] * (size // 4)}]
    inserted += [{"op": "add", "path": "/x/0", "value": 1}] * 9_990
    yield "operations, inserts in a long list", to(_JSON_PATCH, inserted)
    replaced = [{"op": "replace", "path": "", "value": {"a": "x" * (size // 5000)}}] * 4_900
    yield "operations, whole objects", to(_JSON_PATCH, replaced)


def _tested(size: int) -> list[Any]:
    """Each compares all that was put in: quadratic without a bound."""
    big = {f"k{n}": n for n in range(size // 26)}
    return [
        {"op": "add", "path": "/x", "value": big},
        *([{"op": "test", "path": "/x", "value": {}}] * 1),
        *([{"op": "copy", "from": "/x/k1", "path": "/y"}, {"op": "test", "path": "", "value": None}] * 4_000),
    ]


def _copied(size: int) -> list[Any]:
    """Each doubles what is there."""
    start: list[Any] = [{"op": "add", "path": "/x", "value": {"a": "b"}}]
    return start + [{"op": "copy", "from": "/x", "path": f"/x/k{n}"} for n in range(9_000)]


def _applies(size: int) -> Iterator[tuple[str, Ask]]:
    query = f"{_DRY}&fieldManager=m&force=true"

    def to(body: Any, what: str = "configmaps/heavy") -> Ask:
        return Ask("PATCH", f"{_CORE}/{what}{query}", _bytes(body), _APPLY)

    data = {f"k{n}": "v" for n in range(size // 16)}
    yield "apply, keys", to({**config_map(), "data": data})
    yield (
        "apply, new keys",
        Ask("PATCH", f"{_CORE}/configmaps/new{query}", _bytes({**config_map("new"), "data": data}), _APPLY),
    )
    env = [{"name": f"E{n}", "value": "v"} for n in range(size // 32)]
    yield "apply, environment", to(pod(containers=[{"name": "c", "image": "a", "env": env}]), "pods/heavy")
    yield (
        "apply, containers",
        to(pod(containers=[{"name": f"c{n}", "image": "a"} for n in range(size // 34)]), "pods/heavy"),
    )
    finalizers = [f"a.io/f{n}" for n in range(size // 14)]
    yield "apply, finalizers", to(config_map(finalizers=finalizers))
    ports = [{"containerPort": n % 65535 + 1, "protocol": "TCP"} for n in range(size // 45)]
    yield "apply, ports", to(pod(containers=[{"name": "c", "image": "a", "ports": ports}]), "pods/heavy")
    lines = "".join(f"  k{n}: v\n" for n in range(size // 13))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: heavy\ndata:\n{lines}"
    yield "apply, YAML", Ask("PATCH", f"{_CORE}/configmaps/heavy{query}", text.encode(), _APPLY)


def _yamls(size: int) -> Iterator[tuple[str, Ask]]:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\n"

    def ask(text: str) -> Ask:
        return Ask("POST", f"{_CORE}/configmaps{_DRY}", (head + text).encode(), _YAML)

    yield "YAML, keys", ask("data:\n" + "".join(f"  k{n}: v\n" for n in range(size // 13)))
    yield "YAML, dashes", ask("data:\n" + "- \n" * (size // 3))
    yield "YAML, deep dashes", ask("data:\n" + "- " * (size // 2))
    yield "YAML, deep braces", ask("data: " + "{" * size)
    yield "YAML, deep brackets", ask("data: " + "[" * size)
    yield "YAML, flow", ask("data: [" + "a," * (size // 2) + "]")
    yield "YAML, empty maps in flow", ask("data: [" + "{}," * (size // 3) + "]")
    yield "YAML, anchors", ask("data:\n" + "".join(f"  k{n}: &a{n} v\n" for n in range(size // 20)))
    yield "YAML, aliases", ask("data:\n  a: &a v\n" + "".join(f"  k{n}: *a\n" for n in range(size // 13)))
    doubling = "".join(f"  k{n}: &k{n} [*k{n - 1}, *k{n - 1}]\n" for n in range(1, 40))
    yield "YAML, aliases that double", ask("data:\n  k0: &k0 [x, x]\n" + doubling + "#" * (size - len(doubling)))
    merges = "x: &x {" + ",".join(f"a{n}: 1" for n in range(900)) + "}\ny:\n" + "- <<: *x\n" * (size // 10)
    yield "YAML, merge keys", ask(merges)
    lists = "x: &x {" + ",".join(f"a{n}: 1" for n in range(500)) + "}\ny:\n  <<: [" + "*x," * (size // 4) + "]\n"
    yield "YAML, one list of merges", ask(lists)
    yield "YAML, documents", ask("---\na\n" * (size // 6))
    yield "YAML, a long scalar", ask("data:\n  a: " + "v" * size)
    yield "YAML, a folded scalar", ask("data:\n  a: >\n" + "    v\n" * (size // 6))
    yield "YAML, words", ask("data:\n  a: " + "v " * (size // 2))
    yield "YAML, quoted lines", ask('data:\n  a: "' + "v\n" * (size // 2) + '"')
    yield "YAML, escapes", ask('data:\n  a: "' + "\\x41" * (size // 4) + '"')
    yield "YAML, numbers", ask("data: [" + "1.5e3," * (size // 6) + "]")
    yield "YAML, long numbers", ask("data: [" + ("9" * 399 + ",") * (size // 400) + "]")
    yield "YAML, underscores", ask("data: [" + ("1" + "_" * 398 + ",") * (size // 400) + "]")
    yield "YAML, tags", ask("data: [" + "!!str a," * (size // 8) + "]")
    yield "YAML, comments", ask("# a\n" * (size // 4))
    yield "YAML, empty lines", ask("\n" * size)
    yield "YAML, spaces", ask(" " * size + "a")
    yield "YAML, tabs", ask("data:\n\t" + "\t" * size)
    yield "YAML, keys without values", ask("? a\n" * (size // 4))
    yield "YAML, colons", ask("a: " * (size // 3))
    yield "YAML, a key twice", ask("data:\n" + "".join(f"  k{n}: v\n" for n in range(size // 13)) + "  k0: w\n")
    yield "YAML, directives", Ask("POST", f"{_CORE}/configmaps{_DRY}", b"%TAG !a! b\n" * (size // 11), _YAML)
    yield (
        "YAML, is JSON with a fault",
        Ask("POST", f"{_CORE}/configmaps{_DRY}", b'{"a":[' + b"1," * (size // 2) + b"]}", _YAML),
    )


def _protobufs(size: int) -> Iterator[tuple[str, Ask]]:
    def ask(raw: bytes, kind: bytes = b"Pod", path: str = "pods") -> Ask:
        body = b"k8s\x00" + _field(1, _field(1, b"v1") + _field(2, kind)) + _field(2, raw)
        return Ask("POST", f"{_CORE}/{path}{_DRY}", body, _PROTOBUF)

    name = _field(1, _field(1, b"new"))
    yield "protobuf, containers", ask(name + _field(2, _field(2, _field(1, b"c") + _field(2, b"a")) * (size // 9)))
    yield "protobuf, empty containers", ask(name + _field(2, _field(2, b"") * (size // 2)))
    yield (
        "protobuf, labels",
        ask(_field(1, _field(1, b"n") + _field(11, _field(1, b"k") + _field(2, b"v")) * (size // 8))),
    )
    yield "protobuf, unknown fields", ask(_field(1999, b"") * (size // 4))
    yield "protobuf, unknown numbers", ask(b"\x98\x7d\x01" * (size // 3))
    yield "protobuf, long numbers", ask((b"\x98\x7d" + b"\xff" * 9 + b"\x01") * (size // 12))
    yield "protobuf, groups", ask(b"\x0b" * size)
    yield "protobuf, a wrong length", ask(b"\x12\xff\xff\xff\x7f" * (size // 5))
    deep = b""
    while len(deep) < min(size, 200_000):
        deep = _field(2, deep)
    yield "protobuf, deep", ask(deep)
    yield "protobuf, specs again and again", ask(name + _field(2, _field(2, _field(1, b"c"))) * (size // 7))
    data = _field(2, _field(1, b"k") + _field(2, b"v")) * (size // 8)
    yield "protobuf, one key of a config map", ask(name + data, b"ConfigMap", "configmaps")
    keys = b"".join(_field(2, _field(1, b"k%d" % n) + _field(2, b"v")) for n in range(size // 14))
    yield "protobuf, keys of a config map", ask(name + keys, b"ConfigMap", "configmaps")


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value)


_PARTS: Final = (_texts, heavy_objects, _patches, _operations, _applies, _yamls, _protobufs)
