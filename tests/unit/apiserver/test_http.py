"""Paths and methods, and what they mean."""

import pytest

from kit.api_process import Api
from pykubelet.apiserver.backend import LIGHT

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/nonsense", 404),
        ("GET", "/apis/none/v1/things", 404),
        ("POST", "/api/v1/pods", 405),
        ("PATCH", PODS, 405),
        ("OPTIONS", PODS, 405),
        ("POST", "/version", 405),
    ],
)
async def test_paths_and_methods_that_mean_nothing(api: Api, method: str, path: str, code: int) -> None:
    found, refused = await api.ask(method, path)
    assert (found, refused["kind"]) == (code, "Status")


async def test_health_is_told_part_by_part(api: Api) -> None:
    assert await api.ask("GET", "/livez") == (200, "ok")
    _, text = await api.ask("GET", "/readyz?verbose")
    assert "[+]etcd ok" in text
    assert text.endswith("readyz check passed\n")
    await api.backend.store.close()
    code, text = await api.ask("GET", "/readyz")
    assert code == 500
    assert "[-]etcd failed" in text


async def test_what_is_read_is_no_heavier_for_what_comes_with_the_request(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> None:
        raise AssertionError("nothing is worked on beside the loop")

    monkeypatch.setattr(api.backend._beside, "run", run)
    body = {"data": "a" * LIGHT}
    assert (await api.ask("GET", PODS, body))[0] == 200
    assert (await api.ask("GET", f"{PODS}?watch=true&resourceVersion=0&timeoutSeconds=1", body))[0] == 200
