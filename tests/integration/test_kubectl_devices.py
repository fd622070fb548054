"""The real kubectl, with pods that claim devices: they are published by hand here, as a driver would."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from kit.api_process import Api, done
from kit.cluster import running
from kit.kubectl import KUBECTL
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.resource_claims import ResourceClaims
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler

pytestmark = [
    pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed"),
    pytest.mark.timeout(180),
]

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
    - {name: gpu-0, attributes: {model: {string: small}}, capacity: {memory: {value: 10Gi}}}
    - {name: gpu-1, attributes: {model: {string: big}}, capacity: {memory: {value: 40Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          firstAvailable:
            - name: huge
              deviceClassName: gpu
              selectors:
                - cel: {expression: 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'}
            - name: big
              deviceClassName: gpu
              selectors:
                - cel: {expression: 'device.attributes["gpu.example.com"].model == "big"'}
"""
READY = (
    '{"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True",'
    '"lastHeartbeatTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}'
)
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  tolerations: [{{operator: Exists}}]
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: large}}]
  containers: [{{name: c, image: "busybox:1.36", resources: {{claims: [{{name: gpu}}]}}}}]
"""


@pytest.fixture
async def devices(api: Api) -> AsyncIterator[Api]:
    """With the two controllers that see to claims, and a node that has devices."""
    client = ControllerClient(api.backend)
    async with AsyncExitStack() as stack:
        for each in (Scheduler(client), ResourceClaims(client)):
            await stack.enter_async_context(running(each))
        await done(api, "create", "-f", "-", stdin=CLUSTER)
        await done(api, "patch", "node", "n1", "--subresource=status", "-p", READY)
        yield api


async def bound(api: Api, name: str) -> None:
    await done(api, "wait", f"pod/{name}", "--for=jsonpath={.spec.nodeName}=n1", "--timeout=30s")


async def test_a_pod_gets_the_devices_that_it_claims_and_the_next_one_gets_them_after_it(devices: Api) -> None:
    for name in ("first", "second"):
        await done(devices, "create", "-f", "-", stdin=POD.format(name=name))
        if name == "first":
            await bound(devices, "first")
    (claim,) = [
        each
        for each in json.loads(await done(devices, "get", "resourceclaims", "-o", "json"))["items"]
        if each["metadata"]["ownerReferences"][0]["name"] == "first"
    ]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result == {"request": "gpu/big", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}
    await done(devices, "wait", "pod/second", "--for=condition=PodScheduled=false", "--timeout=30s")
    assert "1 cannot allocate all claims." in await done(devices, "describe", "pod", "second")
    header, *rows = (await done(devices, "get", "resourceclaims")).splitlines()
    assert header.split() == ["NAME", "STATE", "AGE"]
    assert sorted(row.split()[1] for row in rows) == ["allocated,reserved", "pending"]
    assert "gpu/big" in await done(devices, "describe", "resourceclaim", claim["metadata"]["name"])
    assert (await done(devices, "get", "resourceslices")).splitlines()[1].split()[:4] == [
        "n1-gpus", "n1", "gpu.example.com", "n1"
    ]  # fmt: skip
    assert "FIELD: matchAttribute" in await done(
        devices, "explain", "resourceclaim.spec.devices.constraints.matchAttribute"
    )

    await done(devices, "patch", "pod", "first", "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
    await bound(devices, "second")
    await done(devices, "wait", f"resourceclaim/{claim['metadata']['name']}", "--for=delete", "--timeout=30s")
    gone = await devices.kubectl("get", "resourceclaim", claim["metadata"]["name"])
    assert "NotFound" in gone.err


async def test_what_makes_no_sense_is_refused_in_words(devices: Api) -> None:
    slices = json.loads(await done(devices, "get", "resourceslice", "n1-gpus", "-o", "json"))
    assert slices["metadata"]["generation"] == 1
    moved = await devices.kubectl("patch", "resourceslice", "n1-gpus", "-p", '{"spec":{"nodeName":"n2"}}')
    assert "spec.nodeName: Invalid value" in moved.err
    administrator = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: all}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All, adminAccess: true}}]}}
"""
    refused = await devices.kubectl("create", "-f", "-", stdin=administrator)
    assert "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label" in refused.err
    await done(devices, "label", "namespace", "default", "resource.kubernetes.io/admin-access=true")
    await done(devices, "create", "-f", "-", stdin=administrator)
    changed = await devices.kubectl("patch", "resourceclaim", "all", "--type=json", "-p",
                                    '[{"op":"remove","path":"/spec/devices/requests/0"}]')  # fmt: skip
    assert "field is immutable" in changed.err
    wrong = administrator.replace("adminAccess: true", "selectors: [{cel: {expression: device.serial}}]")
    assert "undefined field 'serial'" in (await devices.kubectl("create", "-f", "-", stdin=wrong)).err
