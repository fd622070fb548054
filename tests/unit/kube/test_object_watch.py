"""Objects that pods use, watched: the strategy Watch."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from kit.list_watch import ListWatchServer, client_of, hang_up, list_watch_server, status
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, Retry
from pykubelet.base.journal import About, work_for
from pykubelet.kube.errors import Refused
from pykubelet.kube.object_cache import ObjectCache
from pykubelet.kube.pod_objects import KubeObjects
from pykubelet.kube.services import ServiceView
from pykubelet.kube.watch import Changed, Deleted, Reflector, Relisted
from pykubelet.pod.moments import Journal


class Node:
    """`woken` are the pods that were woken, in their order."""

    def __init__(self, server: ListWatchServer, objects: KubeObjects) -> None:
        self.server = server
        self.objects = objects
        self.woken: list[str] = []

    async def follow(self) -> None:
        async with aclosing(self.objects.changes()) as changes:
            async for uids in changes:
                self.woken += sorted(uids)

    def add(self, uid: str, name: str = "conf", *, namespace: str = "default", **mount: Any) -> Pod:
        pod = pod_with(uid, name, namespace, **mount)
        self.objects.register(pod)
        return pod

    async def read(self, name: str = "conf", *, namespace: str = "default", fresh: bool = False) -> str:
        return (await self.objects.config_map(make_pod(namespace=namespace), name, fresh=fresh)).data["k"]

    async def apply(self, text: str, name: str = "conf", *, namespace: str = "default", **fields: Any) -> None:
        await self.server.apply(config_map(text, name, namespace, **fields), "configmaps")

    async def delete(self, name: str = "conf") -> None:
        await self.server.delete(name, "configmaps")

    def asked(self, *, watch: bool) -> int:
        return sum(1 for each in self.server.requests if ("watch" in each) is watch)


def config_map(text: str, name: str, namespace: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"of-{name}"}, "data": {"k": text}, **fields}


def pod_with(uid: str, name: str, namespace: str = "default", **mount: Any) -> Pod:
    mounts = [{"name": "v", "mountPath": "/etc/v", **mount}]
    spec = {
        "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}],
        "volumes": [{"name": "v", "configMap": {"name": name}}],
    }
    return changed(make_pod(uid, uid=uid, namespace=namespace), spec=codec.convert(PodSpec, spec))


def env_pod(uid: str, name: str) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": name}}]}]}
    return changed(make_pod(uid, uid=uid), spec=codec.convert(PodSpec, spec))


@asynccontextmanager
async def node() -> AsyncIterator[Node]:
    async with list_watch_server() as server, client_of(server) as client:
        made = Node(server, KubeObjects(client, ServiceView(client)))
        tasks = [asyncio.create_task(made.objects.run()), asyncio.create_task(made.follow())]
        await asyncio.sleep(0)
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task


@virtual_time
async def test_a_change_wakes_the_pod_and_is_there_without_another_question() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        assert await it.read(fresh=True) == "1"
        await eventually(lambda: it.server.open_watches == 1)
        assert it.woken == []
        await it.apply("2")
        await eventually(lambda: it.woken == ["u1"])
        assert await it.read() == "2"
        assert await it.read(fresh=True) == "2"
        assert (it.asked(watch=False), it.asked(watch=True)) == (1, 1)
        assert all(each["fieldSelector"] == "metadata.name=conf" for each in it.server.requests)
        assert {each["path"] for each in it.server.requests} == {"/api/v1/namespaces/default/configmaps"}
        assert "resourceVersion" not in it.server.requests[0]  # the newest there is


@virtual_time
async def test_pods_that_share_an_object_share_its_watch_and_the_last_one_ends_it() -> None:
    async with node() as it:
        await it.apply("1")
        for number in range(20):
            it.add(f"u{number}")
        assert {await it.read(fresh=True) for _ in range(20)} == {"1"}
        await eventually(lambda: it.server.open_watches == 1)
        for number in range(19):
            it.objects.forget(f"u{number}")
        await it.apply("2")
        await eventually(lambda: it.woken == ["u19"])
        it.objects.forget("u19")
        await eventually(lambda: it.server.open_watches == 0)
        await it.apply("3")
        assert (it.asked(watch=False), it.asked(watch=True)) == (1, 1)
        it.add("u20")
        assert await it.read(fresh=True) == "3"
        assert it.woken == ["u19"]


@virtual_time
async def test_a_pod_hears_of_its_own_objects_only() -> None:
    async with node() as it:
        for name, namespace in (("conf", "default"), ("other", "default"), ("conf", "else")):
            await it.apply("1", name, namespace=namespace)
            it.add(f"{namespace}-{name}", name, namespace=namespace)
            assert await it.read(name, namespace=namespace) == "1"
        await eventually(lambda: it.server.open_watches == 3)
        await it.apply("2", "other")
        await it.apply("2", namespace="else")
        await eventually(lambda: len(it.woken) == 2)
        assert sorted(it.woken) == ["default-other", "else-conf"]
        assert await it.read() == "1"


@virtual_time
async def test_files_of_a_sub_path_and_environments_do_not_follow_and_nobody_is_woken_for_them() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("part", subPath="k")
        it.objects.register(env_pod("env", "conf"))
        it.add("whole")
        await it.read()
        await it.apply("2")
        await eventually(lambda: it.woken == ["whole"])


@virtual_time
async def test_what_does_not_exist_yet_wakes_all_who_wait_for_it_when_it_comes() -> None:
    async with node() as it:
        it.add("file")
        it.objects.register(env_pod("env", "conf"))
        with pytest.raises(NotFound, match=r'^configmap "conf" not found$'):
            await it.read(fresh=True)
        with pytest.raises(NotFound):
            await it.read(fresh=True)
        await it.apply("1")
        await eventually(lambda: it.woken == ["env", "file"])
        assert await it.read(fresh=True) == "1"
        assert it.asked(watch=False) == 1


@virtual_time
async def test_what_is_deleted_is_gone_and_comes_back_under_its_name() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await it.delete()
        await eventually(lambda: it.woken == ["u1"])
        with pytest.raises(NotFound):
            await it.read()
        await it.apply("2")
        await eventually(lambda: it.woken == ["u1", "u1"])
        assert await it.read() == "2"


@virtual_time
async def test_what_can_never_change_is_not_watched_once_it_was_seen() -> None:
    async with node() as it:
        await it.apply("1", immutable=True)
        it.add("u1")
        assert await it.read(fresh=True) == "1"
        await eventually(
            lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "configmap default/conf"]
        )
        for _ in range(3):
            assert await it.read() == "1"
        assert (len(it.server.requests), it.server.open_watches) == (1, 0)


@virtual_time
async def test_a_watch_ends_when_its_object_becomes_immutable_and_begins_again_with_one_that_is_not() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await it.apply("2", immutable=True)
        await eventually(lambda: it.woken == ["u1"] and it.server.open_watches == 0)
        await it.delete()
        await it.apply("3")
        assert await it.read() == "2"
        assert await it.read(fresh=True) == "3"  # for a pod that is about to start
        assert await it.read() == "3"
        await eventually(lambda: it.server.open_watches == 1)
        await it.apply("4")
        await eventually(lambda: len(it.woken) == 3)
        assert await it.read() == "4"


@virtual_time
async def test_while_the_server_is_away_what_was_had_is_believed_and_later_nothing_is_missed() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await eventually(lambda: it.server.open_watches == 1)
        it.server.faults.extend([hang_up] * 4)  # two for the watch and two for those who ask
        it.server.drop_connections()
        await eventually(lambda: len(it.server.requests) >= 3)
        assert await it.read() == "1"
        assert await it.read(fresh=True) == "1"
        await it.apply("2")
        await eventually(lambda: it.woken == ["u1"], seconds=60)
        assert await it.read() == "2"
        lists = [each for each in it.server.requests if "watch" not in each and "fieldSelector" in each]
        assert len(lists) == 1  # it goes on where it was


@virtual_time
async def test_while_a_watch_is_broken_a_pod_that_starts_asks_and_the_others_are_woken() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await eventually(lambda: it.server.open_watches == 1)
        it.server.faults.append(status(500))
        it.server.drop_connections()
        await eventually(lambda: len(it.server.requests) == 3)
        await asyncio.sleep(0.1)  # the watch is tried again after 0.8 s at the soonest
        await it.apply("2")
        it.add("u2")
        assert await it.read(fresh=True) == "2"
        await eventually(lambda: it.woken == ["u1", "u2"])


@virtual_time
async def test_a_watch_that_has_come_back_is_believed_again() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await eventually(lambda: it.server.open_watches == 1)
        it.server.drop_connections()
        await asyncio.sleep(60)
        await eventually(lambda: it.server.open_watches == 1)
        before = len(it.server.requests)
        for _ in range(10):
            assert await it.read(fresh=True) == "1"
        assert len(it.server.requests) == before
        assert it.woken == []


@virtual_time
async def test_a_version_that_the_server_has_forgotten_is_listed_again_and_wakes_only_for_a_change() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        it.add("u2", "other")
        await it.apply("1", "other")
        await it.read()
        await it.read("other")
        await eventually(lambda: it.server.open_watches == 2)
        await it.apply("2")
        await it.apply("9", "unrelated")
        it.server.compact()
        it.server.drop_connections()
        await eventually(lambda: it.woken == ["u1"], seconds=60)
        assert (await it.read(), await it.read("other")) == ("2", "1")
        await eventually(lambda: it.asked(watch=False) == 4)  # both twice
        await asyncio.sleep(5)
        assert it.woken == ["u1"]


@virtual_time
async def test_who_may_not_is_told_why_and_has_it_as_soon_as_he_may() -> None:
    async with node() as it:
        await it.apply("1")
        it.server.faults.extend([status(403), status(403)])
        it.add("u1")
        with pytest.raises(Refused, match="403"):
            await it.read(fresh=True)
        await eventually(lambda: it.woken == ["u1"], seconds=10)
        assert await it.read(fresh=True) == "1"


@virtual_time
async def test_a_first_question_that_nobody_answers_is_an_error_to_try_again() -> None:
    async with node() as it:
        it.server.faults.extend([status(503), status(503)])
        it.add("u1")
        with pytest.raises(Retry):
            await it.read(fresh=True)


@virtual_time
async def test_objects_that_nobody_has_asked_for_are_not_watched() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await asyncio.sleep(5)
        assert it.server.requests == []


@virtual_time
async def test_a_pod_that_changes_what_it_uses_lets_go_of_the_rest() -> None:
    async with node() as it:
        for name in ("conf", "other"):
            await it.apply("1", name)
        it.add("u1")
        await it.read()
        it.add("u1", "other")
        await it.read("other")
        await eventually(lambda: it.server.open_watches == 1)
        await it.apply("2")
        await it.apply("2", "other")
        await eventually(lambda: it.woken == ["u1"])


@virtual_time
async def test_hours_without_a_change_cost_one_request_now_and_then() -> None:
    async with node() as it:
        await it.apply("1")
        it.add("u1")
        await it.read()
        await asyncio.sleep(3600)
        assert it.woken == []
        assert it.asked(watch=False) == 1
        assert it.asked(watch=True) <= 13  # each lasts five to ten minutes


@virtual_time
async def test_what_a_watch_notes_is_not_of_the_pod_that_happened_to_begin_it() -> None:
    noted: list[str] = []
    journal = Journal()
    journal.read_by(lambda each: noted.append(each.about.uid))
    async with list_watch_server() as server, client_of(server, journal=journal) as client:
        it = Node(server, KubeObjects(client, ServiceView(client)))
        running = asyncio.create_task(it.objects.run())
        await asyncio.sleep(0)
        await it.apply("1")
        it.add("u1")

        async def start() -> None:
            work_for(About("u1"))
            await it.read()

        await asyncio.create_task(start())
        await asyncio.sleep(3600)  # others may use the object long after that pod is gone
        assert len(noted) > 5
        assert set(noted) == {""}
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def named(name: str, text: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", uid=name), data={"k": f"{name} {text}"})


class Scripted(Reflector[ConfigMap]):
    def __init__(self, is_steady: bool) -> None:
        self.is_steady = is_steady

    async def events(self) -> AsyncGenerator[Relisted[ConfigMap], None]:
        if not self.is_steady:
            raise RuntimeError("nobody foresaw this")
        yield Relisted(tuple(named(name, "seen") for name in ("another", "good", "one more")))
        await asyncio.Event().wait()


@virtual_time
async def test_a_watch_that_breaks_leaves_the_others_alone() -> None:
    async def ask(namespace: str, name: str) -> ConfigMap:
        return ConfigMap(data={"k": "asked"})

    cache = ObjectCache("configmap", ConfigMap, ask, lambda namespace, name: Scripted(name == "good"))
    cache.use("u1", {("default", "good"): True, ("default", "bad"): True})
    async with asyncio.TaskGroup() as tasks:
        cache.watch_in(tasks)
        for _ in range(2):
            assert (await cache.get("default", "good")).data["k"] == "good seen"
            assert (await cache.get("default", "bad", fresh=True)).data["k"] == "asked"
        cache.watch_in(None)
        cache.use("u1", {})


class Careless(Scripted):
    async def events(self) -> AsyncGenerator[Relisted[ConfigMap] | Changed[ConfigMap] | Deleted, None]:  # type: ignore[override]
        yield Relisted((named("another", "1"), named("good", "1")))
        yield Changed(named("another", "2"))
        yield Deleted(ObjectMeta(name="another"))
        await asyncio.Event().wait()


@virtual_time
async def test_a_server_that_does_not_heed_the_selector_passes_no_object_off_as_another() -> None:
    async def ask(namespace: str, name: str) -> ConfigMap:
        raise AssertionError("it is watched")

    cache = ObjectCache("configmap", ConfigMap, ask, lambda namespace, name: Careless(is_steady=True))
    cache.use("u1", {("default", "good"): True})
    async with asyncio.TaskGroup() as tasks:
        cache.watch_in(tasks)
        for _ in range(3):
            assert (await cache.get("default", "good")).data["k"] == "good 1"
            await asyncio.sleep(1)
        cache.watch_in(None)
        cache.use("u1", {})
