"""Secrets."""

import base64
from typing import Any

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


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


WRAPPED = "YWJjZGVm\nZ2hpamts\r\nbQ==\n"


async def test_wrapped_base64_is_taken_on_every_way_and_kept_in_one_line(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "w"}, "data": {"k": WRAPPED}}
    kept = {"k": "YWJjZGVmZ2hpamtsbQ=="}
    _, made = await api.ask("POST", f"{NS}/secrets", body)
    assert made["data"] == kept
    patches = {
        MERGE: {"data": {"m": WRAPPED}},
        "application/strategic-merge-patch+json": {"data": {"s": WRAPPED}},
        "application/json-patch+json": [{"op": "add", "path": "/data/j", "value": WRAPPED}],
    }
    for kind, patch in patches.items():
        code, made = await api.ask("PATCH", f"{NS}/secrets/w", patch, kind=kind)
        assert (code, set(made["data"].values())) == (200, set(kept.values())), kind
    applied = {**body, "metadata": {"name": "a"}}
    way = f"{NS}/secrets/a?fieldManager=me"
    code, made = await api.ask("PATCH", way, applied, kind="application/apply-patch+yaml")
    assert (code, made["data"]) == (201, kept)
    version = made["metadata"]["resourceVersion"]
    _, made = await api.ask("PATCH", way, applied, kind="application/apply-patch+yaml")
    assert made["metadata"]["resourceVersion"] == version  # nothing has changed


async def test_bad_base64_names_its_key(api: Api) -> None:
    for plural, part in (("secrets", "data"), ("configmaps", "binaryData")):
        code, refused = await api.ask("POST", f"{NS}/{plural}", {"metadata": {"name": "b"}, part: {"k": "YQ== "}})
        assert (code, refused["reason"]) == (400, "BadRequest")
        assert refused["message"].endswith(f": {part}[k]: illegal base64 data at input byte 2")
