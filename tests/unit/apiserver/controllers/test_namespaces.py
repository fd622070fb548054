"""The end of a namespace."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.namespaces import NamespaceController

GONE = {"deletionTimestamp": "2026-01-02T03:04:05Z"}


@virtual_time
async def test_a_deleted_namespace_goes_after_everything_in_it() -> None:
    async with cluster() as c, running(NamespaceController(c)):
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "doomed"}})
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        await c.pod("p", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}, metadata={"namespace": "doomed"})
        metadata = {"name": "doomed", **GONE}
        await c.add("", "namespaces", {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}})
        await asyncio.sleep(5)

        assert await c.get("configmaps", "a", "doomed") is None
        pod = await c.get("pods", "p", "doomed")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        namespace = await c.get("namespaces", "doomed")
        text = condition(namespace, "NamespaceContentRemaining")["message"]
        assert text == "Some resources are remaining: pods has 1 resource instances"

        await c.remove(("", "pods"), pod, grace=0)
        await asyncio.sleep(5)
        assert await c.get("namespaces", "doomed") is None
        assert await c.get("configmaps", "a") is not None
