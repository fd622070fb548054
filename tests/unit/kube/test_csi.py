"""Word of drivers on a node reaches the API server, and comes back when they go."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.api_process import Api, serving_api
from kit.last_known import Remembered
from pykubelet.api import codec
from pykubelet.api.quantity import Quantity
from pykubelet.api.storage import CSIDriverSpec, PersistentVolumeClaim, SecretReference
from pykubelet.base.errors import Conflict, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csi import KubeCsi
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.container.volume_expansion import finished, in_progress

NODE = "/api/v1/nodes"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
STORAGE = "/apis/storage.k8s.io/v1"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving_api() as running:
        await post(running, NODE, {"metadata": {"name": "n1"}})
        yield running


@pytest.fixture
async def csi(api: Api) -> AsyncIterator[KubeCsi]:
    config = ClientConfig(Cluster(server=api.url), User())
    async with ApiClient(Credentials(config, environ={})) as client:
        yield KubeCsi(client, "n1", None)  # type: ignore[arg-type]


async def post(api: Api, path: str, body: dict[str, Any]) -> None:
    async with api.session.post(f"{api.url}{path}", json=body) as answer:
        assert answer.status == 201, await answer.text()


async def read(api: Api, path: str) -> Any:
    async with api.session.get(f"{api.url}{path}") as answer:
        return await answer.json()


async def test_drivers_come_and_go(api: Api, csi: KubeCsi) -> None:
    await csi.install("a.example.com", "id-a", {"example.com/rack": "r1"}, 7)
    await csi.install("b.example.com", "id-b", {}, 0)
    found = await read(api, f"{STORAGE}/csinodes/n1")
    assert found["spec"]["drivers"] == [
        {"name": "a.example.com", "nodeID": "id-a", "topologyKeys": ["example.com/rack"], "allocatable": {"count": 7}},
        {"name": "b.example.com", "nodeID": "id-b"},
    ]
    node = await read(api, f"{NODE}/n1")
    assert found["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    assert node["metadata"]["labels"]["example.com/rack"] == "r1"
    ids = json.loads(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"])
    assert ids == {"a.example.com": "id-a", "b.example.com": "id-b"}
    await csi.install("a.example.com", "other", {}, 0)  # the driver was set up anew
    await csi.uninstall("b.example.com")
    found = await read(api, f"{STORAGE}/csinodes/n1")
    assert [(each["name"], each["nodeID"]) for each in found["spec"]["drivers"]] == [("a.example.com", "other")]
    await csi.uninstall("a.example.com")
    assert "csi.volume.kubernetes.io/nodeid" not in (await read(api, f"{NODE}/n1"))["metadata"].get("annotations", {})


async def test_a_node_tells_what_it_leaves_to_drivers_before_it_has_any(api: Api, csi: KubeCsi) -> None:
    async def told() -> Any:
        return (await read(api, f"{STORAGE}/csinodes/n1")).get("metadata", {}).get("annotations", {}).get(MIGRATED)

    await post(api, f"{STORAGE}/csinodes", {"metadata": {"name": "n1"}, "spec": {"drivers": []}})  # by an older agent
    task = asyncio.create_task(csi.run())
    async with asyncio.timeout(30):
        while not await told():  # noqa: ASYNC110 - it is a server that changes
            await asyncio.sleep(0.01)
    task.cancel()
    assert await told() == (
        "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,"
        "kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
    )


async def test_a_claims_status_is_told_unless_somebody_was_faster(api: Api, csi: KubeCsi) -> None:
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await post(api, path, {"metadata": {"name": "c"}, "spec": spec})
    claim = codec.convert(PersistentVolumeClaim, await read(api, f"{path}/c"))
    after = await csi.patch_claim(claim, in_progress(claim))
    assert after.status.allocated_resource_statuses == {"storage": "NodeResizeInProgress"}
    with pytest.raises(Conflict):
        await csi.patch_claim(claim, in_progress(claim))
    done = await csi.patch_claim(after, finished(after, Quantity.of(5)))
    assert (done.status.capacity, done.status.allocated_resource_statuses) == ({"storage": Quantity.of(5)}, {})


async def test_what_is_said_of_a_driver_and_an_attachment(api: Api, csi: KubeCsi) -> None:
    assert await csi.driver("a.example.com") == CSIDriverSpec()
    about = {"metadata": {"name": "a.example.com"}, "spec": {"attachRequired": False, "fsGroupPolicy": "File"}}
    await post(api, f"{STORAGE}/csidrivers", about)
    told = await csi.driver("a.example.com")
    assert (told.attach_required, told.fs_group_policy) == (False, "File")
    with pytest.raises(Retry, match="is being created"):
        await csi.attached("csi-x")


async def test_what_an_earlier_agent_knew_of_drivers_is_believed_while_the_server_is_away(api: Api) -> None:
    about = {"metadata": {"name": "a.example.com"}, "spec": {"attachRequired": False}}
    await post(api, f"{STORAGE}/csidrivers", about)
    kept: dict[tuple[str, ...], bytes] = {}
    for url, driver, attach in (
        (api.url, "a.example.com", False),
        (api.url, "nobody.example.com", None),
        ("http://127.0.0.1:1", "a.example.com", False),
        ("http://127.0.0.1:1", "nobody.example.com", None),
    ):
        config = ClientConfig(Cluster(server=url), User())
        async with ApiClient(Credentials(config, environ={})) as client:
            known = Remembered(kept)
            asking = KubeCsi(client, "n1", None, Before(known))  # type: ignore[arg-type]
            assert (await asking.driver(driver)).attach_required is attach
            if url != api.url:
                with pytest.raises(Retry):
                    await asking.driver("other.example.com")
        kept = known.saved


async def test_a_drivers_secret(api: Api, csi: KubeCsi) -> None:
    with pytest.raises(Retry, match="secret default/s is not there"):
        await csi.secret(SecretReference("s", "default"))
    await post(api, "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"key": "word"}})
    assert await csi.secret(SecretReference("s", "default")) == {"key": "word"}
