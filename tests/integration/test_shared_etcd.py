"""Two of our API servers on one etcd, and the way there from the store of one machine."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kit.api_process import Api, serving_api
from kit.apiserver_process import ApiServerProcess
from kit.etcd import Etcd, private_etcd
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.store.etcd import EtcdStore
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.moving import move
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.base.errors import Invalid

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"


@asynccontextmanager
async def two(etcd: Etcd) -> AsyncGenerator[tuple[Api, Api], None]:
    first, second = [await EtcdStore.open([etcd.endpoint], compact_every=0) for _ in range(2)]
    try:
        async with serving_api(first) as one, serving_api(second) as other:
            yield one, other
    finally:
        await first.close()
        await second.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_what_one_server_has_acknowledged_the_other_shows_at_once(etcd: Etcd) -> None:
    async with two(etcd) as (one, other):
        for number in range(20):
            name = f"at-once-{number}"
            code, made = await one.ask("POST", MAPS, config_map(name, a="1"))
            assert code == 201
            code, seen = await other.ask("GET", f"{MAPS}/{name}")
            assert (code, seen) == (200, made)
            code, listed = await other.ask("GET", MAPS)
            assert name in {each["metadata"]["name"] for each in listed["items"]}
            assert (await other.ask("DELETE", f"{MAPS}/{name}"))[0] == 200
            assert (await one.ask("GET", f"{MAPS}/{name}"))[0] == 404


async def test_changes_through_both_servers_are_all_kept(etcd: Etcd) -> None:
    async with two(etcd) as (one, other):
        await one.ask("POST", MAPS, config_map("shared"))
        patches = [
            server.ask("PATCH", f"{MAPS}/shared", {"data": {f"{name}-{number}": "x"}}, kind=MERGE)
            for number in range(10)
            for name, server in (("one", one), ("other", other))
        ]
        assert {code for code, _ in await asyncio.gather(*patches)} == {200}
        _, seen = await one.ask("GET", f"{MAPS}/shared")
        assert len(seen["data"]) == 20
        stale = {**seen, "data": {"a": "1"}}
        codes = {(await server.ask("PUT", f"{MAPS}/shared", stale))[0] for server in (one, other)}
        assert codes == {200, 409}
        makers = [server.ask("POST", MAPS, config_map("once")) for server in (one, other) for _ in range(5)]
        assert sorted(code for code, _ in await asyncio.gather(*makers)) == [201, *[409] * 9]


async def test_a_watch_of_one_server_tells_what_is_done_through_the_other(etcd: Etcd) -> None:
    async with two(etcd) as (one, other):
        _, listed = await one.ask("GET", MAPS)
        since = listed["metadata"]["resourceVersion"]
        query = f"?watch=true&resourceVersion={since}&fieldSelector=metadata.name%3Dseen"
        async with asyncio.timeout(20), one.session.get(f"{one.url}{MAPS}{query}") as watch:
            await other.ask("POST", MAPS, config_map("seen", a="1"))
            await other.ask("PATCH", f"{MAPS}/seen", {"data": {"a": "2"}}, kind=MERGE)
            await other.ask("DELETE", f"{MAPS}/seen")
            told = [(await watch.content.readline()).decode() for _ in range(3)]
        assert [line.split('"')[3] for line in told] == ["ADDED", "MODIFIED", "DELETED"]


async def test_addresses_of_services_are_given_once_by_two_servers(etcd: Etcd) -> None:
    def service(name: str) -> dict[str, Any]:
        spec = {"ports": [{"port": 80}], "type": "NodePort"}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    async with two(etcd) as (one, other):
        asked = [
            server.ask("POST", "/api/v1/namespaces/default/services", service(f"{name}-{number}"))
            for number in range(15)
            for name, server in (("one", one), ("other", other))
        ]
        answers = await asyncio.gather(*asked)
        assert {code for code, _ in answers} == {201}
        assert len({made["spec"]["clusterIP"] for _, made in answers}) == 30


async def test_a_cluster_moves_from_a_file_to_etcd_and_may_try_twice(etcd: Etcd, tmp_path: Path) -> None:
    prefix = f"{ROOT}configmaps/moved/"
    source = await SqliteStore.open(tmp_path / "state.db")
    target = await EtcdStore.open([etcd.endpoint], compact_every=0)
    try:
        for number in range(1200):
            await source.create(f"{prefix}{number}", f'{{"number":{number}}}'.encode())
        assert await move(source, target, prefix) == 1200
        assert await move(source, target, prefix) == 1200
        there = (await target.list(prefix)).entries
        assert {each.key: each.value for each in there} == {
            each.key: each.value for each in (await source.list(prefix)).entries
        }
        await target.update(there[0].key, b"{}", revision=there[0].revision)
        with pytest.raises(Invalid, match="in use"):
            await move(source, target, prefix)
    finally:
        await source.close()
        await target.close()


async def test_a_server_goes_on_with_the_objects_that_were_moved() -> None:
    before, after = MemoryStore(), MemoryStore()
    async with serving_api(before) as server:
        _, made = await server.ask("POST", MAPS, config_map("kept", a="1"))
    await move(before, after, ROOT)
    async with serving_api(after) as server:
        code, seen = await server.ask("GET", f"{MAPS}/kept")
    assert code == 200
    assert (seen["data"], seen["metadata"]["uid"]) == ({"a": "1"}, made["metadata"]["uid"])


async def ask(server: ApiServerProcess, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    url, tls = f"{server.url}{path}", server.tls()
    async with aiohttp.ClientSession() as session, session.request(method, url, json=body, ssl=tls) as answer:
        return answer.status, await answer.json()


async def holder(server: ApiServerProcess) -> str:
    code, lease = await ask(server, "GET", LEASE)
    return str(lease["spec"]["holderIdentity"]) if code == 200 else ""


async def until(condition: Callable[[], Awaitable[bool]], otherwise: str, seconds: float = 40.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < end, otherwise
        await asyncio.sleep(0.2)


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """For controllers, who look at all there is: nothing of other tests."""
    with private_etcd() as running:
        yield running


async def test_one_of_two_servers_does_the_work_and_the_other_takes_over_when_it_is_killed(
    own_etcd: Etcd, tmp_path: Path
) -> None:
    flags = ("--store", "etcd", "--etcd-servers", own_etcd.endpoint)
    one, other = (ApiServerProcess(tmp_path / name, *flags) for name in ("one", "other"))
    (tmp_path / "one").mkdir()
    try:
        one.start()
        shutil.copytree(one.data / "pki", tmp_path / "other" / "data" / "pki")
        await until(lambda: _is_held(one), "nobody holds the lease")
        other.start()
        first = await holder(one)
        code, _ = await ask(one, "POST", "/api/v1/namespaces", {"metadata": {"name": "worked-on"}})
        assert code == 201
        published = "/api/v1/namespaces/{}/configmaps/kube-root-ca.crt"
        await until(lambda: _is_there(other, published.format("worked-on")), "the authority was not published")
        assert "does the work now" not in other.told()

        one.kill()
        code, _ = await ask(other, "POST", "/api/v1/namespaces", {"metadata": {"name": "taken-over"}})
        assert code == 201
        await until(lambda: _is_there(other, published.format("taken-over")), "nobody took over")
        second = await holder(other)
        assert second
        assert second != first

        other.stop()
        one.start()
        await until(lambda: _is_led_by_another(one, second), "the lease was not given back", seconds=10.0)
    finally:
        one.kill()
        other.kill()


async def _is_held(server: ApiServerProcess) -> bool:
    return bool(await holder(server))


async def _is_led_by_another(server: ApiServerProcess, before: str) -> bool:
    return await holder(server) not in ("", before)


async def _is_there(server: ApiServerProcess, path: str) -> bool:
    return (await ask(server, "GET", path))[0] == 200
