"""The server as one thing: started, stopped and started again over one store."""

from pathlib import Path

from kit.api_process import serving_api
from kit.waiting import eventually
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Listing
from pykubelet.apiserver.store.sqlite import SqliteStore

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    service = "/api/v1/namespaces/default/services/kubernetes"
    store = await SqliteStore.open(tmp_path / "store.db")
    async with serving_api(store) as api:
        _, made = await api.ask("POST", MAPS, {"metadata": {"name": "a"}})
        _, first = await api.ask("GET", service)
    await store.close()
    store = await SqliteStore.open(tmp_path / "store.db")
    async with serving_api(store) as api:
        assert await api.ask("GET", f"{MAPS}/a") == (200, made)
        assert await api.ask("GET", service) == (200, first), "what the cluster needs is made once"
    await store.close()


async def test_watches_end_when_the_server_does() -> None:
    async with serving_api() as api:
        answer = await api.session.get(f"{api.url}{MAPS}?watch=1")
        await eventually(lambda: len(api.server._handler._streams) == 1)
        api.server._handler.end_streams()
        assert await answer.content.read() == b""


async def test_keys_are_those_of_upstream() -> None:
    store = MemoryStore()
    async with serving_api(store) as api:
        await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        await api.ask("POST", MAPS, {"metadata": {"name": "a"}})
        await api.ask("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", {"metadata": {"name": "l"}})
        listing: Listing = await store.list("/registry/")
    keys = {entry.key for entry in listing.entries}
    assert {
        "/registry/configmaps/default/a",
        "/registry/ipaddresses/10.96.0.1",
        "/registry/leases/default/l",
        "/registry/minions/n1",
        "/registry/namespaces/default",
        "/registry/priorityclasses/system-node-critical",
        "/registry/serviceaccounts/default/default",
        "/registry/services/endpoints/default/kubernetes",
        "/registry/services/specs/default/kubernetes",
    } <= keys


async def test_a_store_that_does_not_answer_is_said_to_be_unavailable() -> None:
    async with serving_api() as api:
        await api.backend.store.close()
        code, refused = await api.ask("GET", f"{MAPS}/a")
        assert (code, refused["reason"]) == (503, "ServiceUnavailable")


async def test_what_another_server_has_stored_as_protobuf_is_read() -> None:
    store = MemoryStore()
    async with serving_api(store) as api:
        metadata = b"\x0a\x0c\x0a\x01p\x1a\x07default"
        data = b"\x12\x06\x0a\x01k\x12\x01v"
        raw = metadata + data
        envelope = b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + bytes([len(raw)]) + raw
        await store.create("/registry/configmaps/default/p", envelope)
        _, found = await api.ask("GET", f"{MAPS}/p")
        assert (found["kind"], found["data"]) == ("ConfigMap", {"k": "v"})
        _, listed = await api.ask("GET", f"{MAPS}?fieldSelector=metadata.name%3Dp")
        assert [each["data"] for each in listed["items"]] == [{"k": "v"}]
