"""Objects that pods use, kept for a while: the strategies Cache and Get."""

import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.api.objects import ConfigMap
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.kube.object_cache import ObjectCache
from pykubelet.kube.settings import ChangeDetection
from pykubelet.kube.watch import Reflector


class Server:
    def __init__(self) -> None:
        self.objects: dict[str, ConfigMap] = {}
        self.asked = 0
        self.fault: PykubeletError | None = None
        self.latency = 0.1

    async def get(self, namespace: str, name: str) -> ConfigMap:
        self.asked += 1
        found, fault = self.objects.get(name), self.fault  # as of now: the answer takes its time
        await asyncio.sleep(self.latency)
        if fault is not None:
            raise fault
        if found is None:
            raise NotFound(f"GET .../{name}: 404")
        return found


def holding(**objects: ConfigMap) -> tuple[Server, ObjectCache[ConfigMap]]:
    server = Server()
    server.objects = objects
    return server, cache_of(server)


def cache_of(server: Server, detection: ChangeDetection = "Cache") -> ObjectCache[ConfigMap]:
    def never(namespace: str, name: str) -> Reflector[ConfigMap]:
        raise AssertionError("nothing is watched")

    cache = ObjectCache("configmap", ConfigMap, server.get, never, detection=detection)
    cache.use("u1", {("default", "a"): True, ("default", "b"): True})
    return cache


def said(text: str, *, immutable: bool | None = None) -> ConfigMap:
    return ConfigMap(data={"k": text}, immutable=immutable)


@virtual_time
async def test_what_was_had_lately_is_not_asked_for_again() -> None:
    server, cache = holding(a=said("1"))
    assert await cache.get("default", "a") == said("1")
    server.objects["a"] = said("2")
    assert await cache.get("default", "a") == said("1")
    await asyncio.sleep(60)
    assert await cache.get("default", "a") == said("2")
    assert server.asked == 2


@virtual_time
async def test_what_is_asked_for_fresh_is_never_old() -> None:
    server, cache = holding(a=said("1", immutable=True))
    await cache.get("default", "a")
    server.objects["a"] = said("2")
    assert await cache.get("default", "a", fresh=True) == said("2")
    assert await cache.get("default", "a") == said("2")


@virtual_time
async def test_what_cannot_change_is_had_for_good() -> None:
    server, cache = holding(a=said("1", immutable=True))
    for _ in range(30):
        await cache.get("default", "a")
        await asyncio.sleep(100)
    assert server.asked == 1


@virtual_time
async def test_a_crowd_asks_once_and_nobody_gets_an_answer_to_an_older_question() -> None:
    server, cache = holding(a=said("1"))
    early = asyncio.create_task(cache.get("default", "a", fresh=True))
    await asyncio.sleep(0.05)
    server.objects["a"] = said("2")
    late = await asyncio.gather(*(cache.get("default", "a", fresh=True) for _ in range(50)))
    assert await early == said("1")
    assert set(late[0].data.values()) == {"2"}
    assert all(each == said("2") for each in late)
    assert server.asked == 2


@virtual_time
async def test_a_crowd_shares_a_failure_too() -> None:
    server, cache = holding()
    server.fault, server.latency = Retry("down"), 30.0
    began = asyncio.get_running_loop().time()
    results = await asyncio.gather(*(cache.get("default", "a") for _ in range(50)), return_exceptions=True)
    assert {str(each) for each in results} == {"down"}
    assert asyncio.get_running_loop().time() - began <= 60


@virtual_time
async def test_somebody_who_goes_away_does_not_take_the_others_along() -> None:
    _, cache = holding(a=said("1"))
    first = asyncio.create_task(cache.get("default", "a"))
    second = asyncio.create_task(cache.get("default", "a"))
    await asyncio.sleep(0.05)
    first.cancel()
    assert await second == said("1")


@virtual_time
async def test_what_is_missing_is_told_in_upstreams_words_and_looked_for_each_time() -> None:
    server, cache = holding()
    with pytest.raises(NotFound, match=r'^configmap "a" not found$'):
        await cache.get("default", "a")
    server.objects["a"] = said("1")
    assert await cache.get("default", "a") == said("1")


@virtual_time
async def test_no_name_is_no_object_and_never_all_of_them() -> None:
    server, cache = holding()
    with pytest.raises(NotFound):
        await cache.get("default", "")
    assert server.asked == 0


@virtual_time
async def test_what_was_had_is_believed_while_the_server_is_silent_but_not_when_it_says_no() -> None:
    server, cache = holding(a=said("1"))
    await cache.get("default", "a")
    server.fault = Retry("down")
    assert await cache.get("default", "a", fresh=True) == said("1")
    server.fault = Invalid("forbidden")
    with pytest.raises(Invalid, match="forbidden"):
        await cache.get("default", "a")
    server.fault, server.objects = None, {}
    with pytest.raises(NotFound):
        await cache.get("default", "a")
    server.fault = Retry("down")
    with pytest.raises(Retry):
        await cache.get("default", "a")


@virtual_time
async def test_what_nobody_uses_any_more_is_not_kept() -> None:
    server, cache = holding(a=said("1"), b=said("2"), c=said("3"))
    for name in ("a", "b", "c", "c"):  # nobody has said that he uses the last
        await cache.get("default", name)
    assert server.asked == 4
    cache.use("u1", {("default", "b"): True})
    assert list(cache._entries) == [("default", "b")]
    cache.use("u1", {})
    assert not cache._entries


@virtual_time
async def test_who_wants_it_so_asks_each_time() -> None:
    server = Server()
    server.objects = {"a": said("1", immutable=True)}
    cache = cache_of(server, "Get")
    for _ in range(3):
        await cache.get("default", "a")
    assert server.asked == 3
    server.fault = Retry("down")
    assert await cache.get("default", "a") == said("1", immutable=True)
