import asyncio
from collections.abc import Mapping

import pytest

from kit.pod_objects import MemoryObjects
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod.ports.api import PodObjects
from pykubelet.sources.static_objects import ObjectKey, StaticObjects

KEY: ObjectKey = ("configmap", "default", "m")
VOLUME = {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}
MOUNTED = VOLUME | {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}
IN_ENV = {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}


def pod(name: str, source: str, spec: Mapping[str, object] | None = None, namespace: str = "default") -> Pod:
    made = make_pod(name, namespace=namespace, annotations={SOURCE_ANNOTATION: source})
    return changed(made, spec=codec.convert(PodSpec, spec or {}))


def config_map(value: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="m", namespace="default"), data={"k": value})


async def test_each_pod_sees_the_objects_of_its_own_source_and_namespace() -> None:
    server = MemoryObjects()
    server.config_maps["m"] = config_map("of the API server")
    server.secrets["s"] = Secret(data={"k": b"of the API server"})
    objects: PodObjects = (static := StaticObjects(server))
    static.replace({KEY: config_map("of the folder"), ("secret", "default", "s"): Secret(data={"k": b"of the folder"})})
    assert (await objects.config_map(pod("a", "file"), "m")).data == {"k": "of the folder"}
    assert (await objects.secret(pod("a", "file"), "s")).data == {"k": b"of the folder"}
    assert (await objects.config_map(pod("a", "api"), "m")).data == {"k": "of the API server"}
    assert (await objects.secret(pod("a", "api"), "s")).data == {"k": b"of the API server"}
    with pytest.raises(NotFound, match='configmap "m" not found'):
        await objects.config_map(pod("a", "file", namespace="other"), "m")
    server.config_maps["only-there"] = config_map("x")
    with pytest.raises(NotFound):
        await objects.config_map(pod("a", "file"), "only-there")


@pytest.mark.parametrize("source", ["http", "api"])
async def test_without_an_api_server_pods_from_elsewhere_see_nothing_of_the_folder(source: str) -> None:
    objects = StaticObjects()
    objects.replace({KEY: config_map("x"), ("secret", "default", "s"): Secret()})
    with pytest.raises(NotFound):
        await objects.config_map(pod("a", source), "m")
    with pytest.raises(NotFound):
        await objects.secret(pod("a", source), "s")
    assert await objects.services("default") == ()
    assert objects.renewal_in("uid-a") is None


async def test_a_static_pod_gets_no_token() -> None:
    with pytest.raises(Invalid, match="static pods may not reference serviceaccounts"):
        await StaticObjects(MemoryObjects()).service_account_token("default", "a", "", None, pod("a", "file"))


@virtual_time
async def test_a_change_wakes_the_pods_whose_files_follow_it_and_a_new_object_all_who_need_it() -> None:
    server = MemoryObjects()
    objects = StaticObjects(server)
    woken: list[set[str]] = []

    async def listen() -> None:
        async for uids in objects.changes():
            woken.append(set(uids))

    listening = asyncio.create_task(listen())
    objects.register(pod("files", "file", MOUNTED))
    objects.register(pod("env", "file", IN_ENV))
    objects.register(pod("elsewhere", "file", MOUNTED, namespace="other"))
    objects.register(pod("of-server", "api", MOUNTED))
    assert list(server.registered) == ["uid-of-server"]
    objects.replace({KEY: config_map("1")})
    await eventually(lambda: woken == [{"uid-files", "uid-env"}])
    objects.replace({KEY: config_map("1")})
    objects.replace({KEY: config_map("2")})
    await eventually(lambda: woken[1:] == [{"uid-files"}])
    objects.forget("uid-files")
    objects.replace({})
    server.changed.put_nowait(frozenset({"uid-of-server"}))
    await eventually(lambda: woken[2:] == [{"uid-of-server"}])
    objects.forget("uid-of-server")
    assert server.forgotten == ["uid-of-server"]
    listening.cancel()
