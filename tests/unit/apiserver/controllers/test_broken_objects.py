"""What cannot be read, because another server wrote it or a disk lost it, stands in no controller's way, and nothing
that still works is taken away for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from kit.cluster import TestCluster, cluster, means
from kit.custom_resources import definition
from kit.virtual_time import virtual_time
from kit.workloads import template, workload
from pykubelet.apiserver.admission.client import WebhookClient
from pykubelet.apiserver.controllers.all import run_all
from pykubelet.apiserver.controllers.client import Kind
from pykubelet.apiserver.controllers.custom_resource_definitions import CRDS, CustomResourceDefinitions
from pykubelet.apiserver.controllers.endpoints import EndpointsController
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.pods import PodGarbageCollector
from pykubelet.apiserver.controllers.protection import CLAIM, Protection
from pykubelet.apiserver.objects import Object

JUNK = b'\x00"ownerReferences" "foregroundDeletion" "orphan" "kubernetes.io/service-account-token"'
META = {"uid": "u", "creationTimestamp": 7, "labels": 3, "annotations": [1], "finalizers": ["orphan", 2]}
WRONG = {
    "metadata": {**META, "deletionTimestamp": 5, "ownerReferences": [{"kind": 3, "controller": True}, 4]},
    "spec": "words",
    "status": {"conditions": "words", "phase": 1},
    "data": 3,
    "type": "kubernetes.io/service-account-token",
    "subsets": 4,
    "rules": 1,
    "aggregationRule": {"clusterRoleSelectors": 2},
}
SHAPES = ("junk", "list", "wrong", "nameless")


async def plant(c: TestCluster, kind: Kind, namespace: str, name: str, shape: str = "junk") -> None:
    resource = c.resources.of(*kind)
    metadata = {"name": name, **({"namespace": namespace} if resource.namespaced else {}), **WRONG["metadata"]}  # type: ignore[dict-item]
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    wrong = msgspec.json.encode({**head, **WRONG, "metadata": metadata})
    nameless = msgspec.json.encode({**head, "metadata": {"finalizers": ["orphan"]}, "spec": {}})
    values = {"junk": JUNK, "list": b'["ownerReferences", "orphan"]', "wrong": wrong, "nameless": nameless}
    where = namespace if resource.namespaced else ""
    await c.backend.store.create(resource.key(where, name), values[shape])


async def plant_everywhere(c: TestCluster) -> int:
    kinds = {each.prefix: (each.group, each.plural) for each in c.resources if each.is_stored}
    kinds.pop("/registry/priorityclasses/")  # while one cannot be read, pods are refused, whoever makes them
    for kind in kinds.values():
        for shape in SHAPES:
            await plant(c, kind, "default", f"broken-{shape}", shape)
    return len(kinds)


@asynccontextmanager
async def all_controllers(c: TestCluster) -> AsyncGenerator[None, None]:
    everything = asyncio.create_task(run_all(means(c)))
    definitions = CustomResourceDefinitions(c, WebhookClient(c.backend))
    await definitions.load()
    serving = asyncio.create_task(definitions.run())
    try:
        yield
        assert not serving.done(), serving
    finally:
        for task in (everything, serving):
            task.cancel()
        await asyncio.gather(everything, serving, return_exceptions=True)


def at_work(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "good"}}


async def not_done(c: TestCluster) -> list[str]:
    pods = await c.all(("", "pods"), "good")
    quota = await c.get("resourcequotas", "most", "good")
    done = {
        "pods are made": {each["metadata"]["ownerReferences"][0]["kind"] for each in pods} == {"ReplicaSet", "Job"},
        "pods have a node": {each["spec"].get("nodeName") for each in pods} == {"n1"},
        "namespaces have an authority": await c.get("configmaps", "kube-root-ca.crt", "good") is not None,
        "namespaces have an account": await c.get("serviceaccounts", "default", "good") is not None,
        "services have endpoints": await c.get("endpoints", "web", "good") is not None,
        "quotas are counted": quota.get("status", {}).get("used") == {"services": "1"},
        "namespaces go": await c.get("namespaces", "leaving", "") is None,
    }
    return [what for what, is_done in done.items() if not is_done]


@virtual_time
async def test_with_a_broken_object_of_every_kind_all_controllers_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as c:
        assert await plant_everywhere(c) > 40
        await c.make(("", "namespaces"), {"metadata": {"name": "good"}})
        leaving = await c.make(("", "namespaces"), {"metadata": {"name": "leaving"}})
        await c.node("n1")
        await c.make(("apps", "deployments"), {**workload(), **at_work("web")})
        job = {"template": template(restartPolicy="Never")}
        await c.make(("batch", "jobs"), {**at_work("once"), "spec": job})
        service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await c.make(("", "services"), {**at_work("web"), "spec": service})
        await c.make(("", "resourcequotas"), {**at_work("most"), "spec": {"hard": {"services": "5"}}})
        async with all_controllers(c):
            await c.remove(("", "namespaces"), leaving)
            await asyncio.sleep(30)
            assert await not_done(c) == []
            caplog.clear()
            await asyncio.sleep(600)
        restarted = [each.message for each in caplog.records if each.name.endswith("base.tasks")]
        assert restarted == []
        repeated = [each.message for each in caplog.records if each.name.endswith("controllers.client")]
        assert len(repeated) == len(set(repeated))


@virtual_time
async def test_an_object_that_cannot_be_read_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as c:
        await plant(c, ("", "configmaps"), "default", "broken")
        for _ in range(3):
            assert await c.all(("", "configmaps")) == []
        (told,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert told.message.startswith("/registry/configmaps/default/broken is left as it is: ")


@virtual_time
async def test_pods_of_a_node_that_cannot_be_read_stay() -> None:
    async with cluster() as c:
        await plant(c, ("", "nodes"), "", "n9")
        await c.pod("web", {"nodeName": "n9"})
        collector = PodGarbageCollector(c, quarantine=0)
        for _ in range(2):
            await collector.sync()
        assert await c.get("pods", "web") is not None


@virtual_time
async def test_a_claim_stays_while_a_pod_that_may_use_it_cannot_be_read() -> None:
    async with cluster() as c:
        protected = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["kubernetes.io/pvc-protection"]}
        for namespace in ("default", "kube-system"):
            metadata = {"name": "data", "namespace": namespace, **protected}
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            await c.add("", "persistentvolumeclaims", {"metadata": metadata, "spec": spec})
        await plant(c, ("", "pods"), "default", "broken")
        await Protection(c, CLAIM).sync()
        assert await c.get("persistentvolumeclaims", "data") is not None
        assert await c.get("persistentvolumeclaims", "data", "kube-system") is None


@virtual_time
async def test_endpoints_of_a_service_that_cannot_be_read_stay() -> None:
    async with cluster() as c:
        labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        for name in ("kept", "left"):
            await c.add("", "endpoints", {"metadata": {"name": name, "namespace": "default", "labels": labels}})
        await plant(c, ("", "services"), "default", "kept")
        await EndpointsController(c).sync()
        assert [each["metadata"]["name"] for each in await c.all(("", "endpoints"))] == ["kept"]


@virtual_time
async def test_a_custom_object_that_is_older_than_its_definition_goes_with_its_owner() -> None:
    async with cluster() as c:
        size = {"type": "object", "properties": {"size": {"type": "integer"}}}
        await c.make(CRDS, definition({"type": "object", "properties": {"spec": size}}))
        definitions = CustomResourceDefinitions(c, WebhookClient(c.backend))
        for _ in range(2):
            await definitions.sync()
        gone = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u"}
        metadata = {"name": "old", "namespace": "default", "uid": "w", "ownerReferences": [gone]}
        old = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": "large"}}
        widgets = c.resources.of("example.com", "widgets")
        await c.backend.store.create(widgets.key("default", "old"), msgspec.json.encode(old))
        await GarbageCollector(c).sync()
        assert await c.entries(("example.com", "widgets")) == ()
