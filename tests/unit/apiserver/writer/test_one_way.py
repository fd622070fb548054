"""The same change gives the same stored object, whether a request makes it, a controller, or the writer itself."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import pykubelet.apiserver
from kit.calls import a_call
from kit.cluster import TestCluster, cluster
from kit.virtual_time import VirtualTimeLoop
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.verbs.create import create
from pykubelet.apiserver.verbs.delete import delete
from pykubelet.apiserver.verbs.update import update

MANAGER = "kube-controller-manager"
NODES, PODS, MAPS, SERVICES = ("", "nodes"), ("", "pods"), ("", "configmaps"), ("", "services")


OWNED = {
    "manager": "somebody",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {".": {}, "f:a": {}}, "f:spec": {"f:ports": {}}, "f:metadata": {"f:labels": {".": {}}}},
}


class Step(NamedTuple):
    kind: tuple[str, str]
    part: str
    change: Mapping[str, Any]
    """What takes the place of what the object has there, by the name of the field: metadata is put over the old."""


names = st.sampled_from(["a", "b.c", "k8s.io/x", "Not a name"])
words = st.dictionaries(names, st.sampled_from(["", "x", "y z", "é"]), max_size=3)
labels = st.dictionaries(names, st.sampled_from(["", "x", "not a label value!"]), max_size=3)
finalizers = st.lists(st.sampled_from(["example.com/a", "example.com/b"]), unique=True, max_size=2)
metadata = st.fixed_dictionaries({}, optional={"labels": labels, "annotations": words, "finalizers": finalizers})
conditions = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "DiskPressure"]), "status": st.sampled_from(["True", "False"])},
        optional={"message": st.sampled_from(["", "m"]), "lastTransitionTime": st.just("2026-01-02T03:04:05Z")},
    ),
    unique_by=lambda each: each["type"],
    max_size=2,
)
taints = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from("abc"), "effect": st.sampled_from(["NoSchedule", "NoExecute"])}),
    unique_by=lambda each: (each["key"], each["effect"]),
    max_size=2,
)
ports = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "port": st.integers(0, 70000)}, optional={"nodePort": st.just(0)}
    ),
    unique_by=lambda each: each["name"],
    max_size=2,
)
phases = st.sampled_from(["Pending", "Running", "Failed"])
statuses = st.fixed_dictionaries({"phase": phases, "conditions": conditions})
steps = st.one_of(
    st.builds(lambda data, meta: Step(MAPS, "", {"data": data, "metadata": meta}), words, metadata),
    st.builds(lambda meta: Step(PODS, "", {"metadata": meta}), metadata),
    st.builds(lambda status: Step(PODS, "status", {"status": status}), statuses),
    st.builds(lambda found, meta: Step(NODES, "", {"spec": {"taints": found}, "metadata": meta}), taints, metadata),
    st.builds(lambda found: Step(NODES, "status", {"status": {"conditions": found}}), conditions),
    st.builds(lambda found: Step(SERVICES, "", {"spec": {"clusterIP": "None", "ports": found}}), ports),
)


def changed(old: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**old["metadata"], **change.get("metadata", {})}
    return {**old, **change, "metadata": merged}


async def begun(c: TestCluster) -> None:
    owned = {"name": "x", "managedFields": [OWNED]}
    await c.add(*NODES, {"metadata": owned})
    await c.pod("x", {"nodeName": "x"}, metadata=owned)
    await c.add(*MAPS, {"metadata": {**owned, "namespace": "default"}, "data": {"a": "1"}})
    spec = {"clusterIP": "None", "ports": [{"name": "a", "port": 80}]}
    await c.add(*SERVICES, {"metadata": {**owned, "namespace": "default"}, "spec": spec})


def path(kind: tuple[str, str], name: str = "x") -> str:
    place = "" if kind == NODES else "/namespaces/default"
    return f"/api/v1{place}/{kind[1]}" + (f"/{name}" if name else "")


async def by_request(c: TestCluster, step: Step) -> bool:
    old = await c.get(step.kind[1], "x")
    body = changed(old, step.change)
    call = a_call(c.backend, "PUT", path(step.kind) + (f"/{step.part}" if step.part else ""), body, agent=MANAGER)
    try:
        await update(c.backend, call)
    except ApiError:
        return False
    return True


async def by_controller(c: TestCluster, step: Step) -> bool:
    old = await c.get(step.kind[1], "x")
    client = ControllerClient(c.backend)
    return await client.change(step.kind, old, lambda live: changed(live, step.change), part=step.part) is not None


async def stored(c: TestCluster) -> dict[str, Any]:
    listing = await c.store.list("/registry/")
    return {each.key: msgspec.json.decode(each.value) for each in listing.entries}


async def compared(several: list[Step]) -> None:
    async with cluster() as one, cluster() as other:
        for c in (one, other):
            await begun(c)
        for step in several:
            for c in (one, other):
                c.clock.pass_(1)
            assert await by_request(one, step) == await by_controller(other, step), step
            assert await stored(one) == await stored(other), step
            assert await one.store.revision() == await other.store.revision(), step


@given(st.lists(steps, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_requests_and_controllers_store_the_same_for_the_same_change(several: list[Step]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(compared(several))


def bare(objects: dict[str, Any]) -> dict[str, Any]:
    """Without what is drawn by lot."""
    for each in objects.values():
        each["metadata"].pop("uid", None)
    return objects


async def created(data: dict[str, str], meta: dict[str, Any]) -> None:
    obj = {"metadata": {"name": "new", "namespace": "default", **meta}, "data": data}
    async with cluster() as one, cluster() as other:
        try:
            await create(one.backend, a_call(one.backend, "POST", path(MAPS, ""), obj, agent=MANAGER))
            is_made = True
        except ApiError:
            is_made = False
        assert await ControllerClient(other.backend).create(MAPS, obj) == is_made
        assert bare(await stored(one)) == bare(await stored(other))


@given(words, metadata)
@settings(max_examples=30, deadline=None)
def test_requests_and_controllers_create_the_same(data: dict[str, str], meta: dict[str, Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(created(data, meta))


async def deleted(kind: tuple[str, str], meta: dict[str, Any], grace: int | None, times: int) -> None:
    async with cluster() as one, cluster() as other:
        for c in (one, other):
            await c.pod("x", {"nodeName": "n", "terminationGracePeriodSeconds": 30}, metadata=meta)
            await c.add(*MAPS, {"metadata": {"name": "x", "namespace": "default", **meta}})
        for _ in range(times):
            for c in (one, other):
                c.clock.pass_(1)
            if (old := await other.get(kind[1], "x")) is None:
                break
            options = {} if grace is None else {"gracePeriodSeconds": grace}
            await delete(one.backend, a_call(one.backend, "DELETE", path(kind), options))
            await ControllerClient(other.backend).remove(kind, old, grace=grace)
            assert await stored(one) == await stored(other)


@given(
    st.sampled_from([PODS, MAPS]),
    st.fixed_dictionaries({}, optional={"finalizers": finalizers, "generation": st.just(3)}),
    st.sampled_from([None, 0, 1, 60, -1]),
    st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_requests_and_controllers_delete_in_the_same_way(
    kind: tuple[str, str], meta: dict[str, Any], grace: int | None, times: int
) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(deleted(kind, meta, grace, times))


def test_nobody_but_the_writer_writes_into_the_store() -> None:
    root = Path(pykubelet.apiserver.__file__).parent
    writes = re.compile(r"\bstore\.(create|update|delete)\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if writes.search(path.read_text())}
    assert found == {"writer/writer.py"}
