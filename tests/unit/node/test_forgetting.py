"""Of pods that are gone the agent keeps nothing but their place in the journal, however many there were."""

import asyncio
import gc
from pathlib import Path
from typing import Any

from kit.list_watch import client_of, list_watch_server
from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host.journal_files import JournalFiles
from pykubelet.kube.pod_objects import KubeObjects
from pykubelet.kube.services import ServiceView
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.static_pod import static_pod


def restless(name: str) -> Pod:
    """With probes and a config map."""
    probe = {"exec": {"command": ["x"]}, "periodSeconds": 1}
    container = {"name": "c", "image": f"image-of-{name}", "readinessProbe": probe, "livenessProbe": probe}
    environment = [{"configMapRef": {"name": f"conf-{name}"}}]
    spec = {"containers": [{**container, "envFrom": environment}], "restartPolicy": "Always"}
    return changed(make_pod(name), spec=codec.convert(PodSpec, spec))


def holders(keys: set[str], journal: object) -> list[str]:
    """Maps and sets that hold one of the keys, other than the journal's own."""
    gc.collect()
    kept = vars(journal).values()
    everything = [each for each in gc.get_objects() if isinstance(each, dict | set) and each is not keys]
    found = [each for each in everything if _has_one_of(keys, each) and not any(each is own for own in kept)]
    return [f"{type(each).__name__} {str(each)[:300]}" for each in found]


def _has_one_of(keys: set[str], each: "dict[Any, Any] | set[Any]") -> bool:
    """As a key, or as a part of one."""
    return not keys.isdisjoint(each) or any(type(key) is tuple and not keys.isdisjoint(key) for key in each)


@virtual_time
async def test_nothing_is_kept_of_pods_that_are_gone(tmp_path: Path) -> None:
    world = World()
    on_disk = JournalFiles(tmp_path, rule)
    world.journal.read_by(on_disk.read)
    async with list_watch_server() as server, client_of(server) as client:
        services = ServiceView(client)
        world.objects = objects = KubeObjects(client, services)
        watching = [asyncio.create_task(objects.run()), asyncio.create_task(services.follow())]
        await services.synced.wait()
        async with world.agent() as node:
            world.pods.apply(make_pod("stays"))
            uids = {f"uid-p{number}" for number in range(6)}
            for number in range(6):
                pod = restless(f"p{number}")
                if number == 1:
                    world.runtime.failures["pull_image"] = [Retry("no such image")] * 3
                if number == 2:
                    world.runtime.failures["start_container"] = [Retry("it crashes")] * 3
                if number == 3:
                    world.host.failures["set_up"] = [Retry("no disk")] * 3
                if number == 4:
                    pod = changed(pod, spec=changed(pod.spec, active_deadline_seconds=5))
                if number == 5:
                    pod = static_pod(pod, pod.metadata.uid, "n1", "file")
                await server.apply({"metadata": {"name": f"conf-p{number}", "namespace": "default"}}, "configmaps")
                source = world.files if number == 5 else world.pods
                source.apply(pod)
                await asyncio.sleep(40)
                assert number or server.is_watched("configmaps")
                assert holders(uids, world.journal)
                source.remove(pod.metadata.uid)
                await eventually(lambda: len(node.agent.workers.workers) == 1, seconds=120)
            await asyncio.sleep(60)
            await on_disk.flush()
            assert not server.is_watched("configmaps")
            assert holders(uids, world.journal) == []
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
