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
