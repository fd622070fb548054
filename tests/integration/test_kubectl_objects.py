"""The real kubectl, doing what people do with it."""

import json

import pytest

from kit.api_process import Api, done
from kit.kubectl import KUBECTL

pytestmark = [
    pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed"),
    pytest.mark.timeout(180),
]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: c, image: "busybox:1.36"}]
"""


async def test_a_pod_is_made_shown_changed_and_deleted(api: Api) -> None:
    assert await done(api, "create", "-f", "-", stdin=POD) == "pod/web created\n"
    header, row = (await done(api, "get", "pods", "-o", "wide")).splitlines()
    assert header.split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]
    assert "QoS Class:                   BestEffort" in await done(api, "describe", "pod", "web")
    await done(api, "label", "pod", "web", "tier=front")
    await done(api, "annotate", "pod", "web", "note=1")
    await done(api, "patch", "pod", "web", "-p", '{"spec":{"activeDeadlineSeconds":100}}')
    shown = json.loads(await done(api, "get", "pod", "web", "-o", "json"))
    assert shown["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert shown["metadata"]["annotations"] == {"note": "1"}
    assert shown["spec"]["activeDeadlineSeconds"] == 100
    await done(api, "wait", "pod/web", "--for=jsonpath={.status.phase}=Pending", "--timeout=20s")
    assert await done(api, "delete", "pod", "web") == 'pod "web" deleted\n'
    assert "NotFound" in (await api.kubectl("get", "pod", "web")).err


async def test_apply_from_the_client_from_the_server_and_what_would_change(api: Api) -> None:
    assert await done(api, "apply", "-f", "-", stdin=POD) == "pod/web created\n"
    assert await done(api, "apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"
    changed = POD.replace("{app: web}", "{app: other}")
    difference = await api.kubectl("diff", "-f", "-", stdin=changed)
    assert difference.code == 1
    assert "-    app: web\n+    app: other\n" in difference.out
    assert await done(api, "apply", "-f", "-", stdin=changed) == "pod/web configured\n"
    assert await done(api, "apply", "--server-side", "-f", "-", stdin=changed) == "pod/web serverside-applied\n"
    third = POD.replace("{app: web}", "{app: third}")
    refused = await api.kubectl("apply", "--server-side", "--field-manager=me", "-f", "-", stdin=third)
    assert "conflict" in refused.err
    forced = ("apply", "--server-side", "--field-manager=me", "--force-conflicts", "-f", "-")
    assert await done(api, *forced, stdin=third) == "pod/web serverside-applied\n"


async def test_what_kubectl_sends_as_protobuf_is_understood(api: Api) -> None:
    await done(api, "create", "namespace", "team")
    await done(api, "create", "configmap", "conf", "-n", "team", "--from-literal=key=value")
    await done(api, "create", "secret", "generic", "key", "-n", "team", "--from-literal=password=x")
    await done(api, "create", "service", "clusterip", "web", "-n", "team", "--tcp=80:8080")
    await done(api, "create", "quota", "most", "-n", "team", "--hard=pods=3,cpu=1500m")
    await done(api, "create", "priorityclass", "high", "--value=1000", "--preemption-policy=Never")
    conf, key, web, most = json.loads(
        await done(api, "get", "cm/conf", "secret/key", "svc/web", "quota/most", "-n", "team", "-o", "json")
    )["items"]
    assert conf["data"] == {"key": "value"}
    assert key["data"] == {"password": "eA=="}
    assert web["spec"]["ports"] == [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    assert most["spec"]["hard"] == {"cpu": "1500m", "pods": "3"}
    high = json.loads(await done(api, "get", "priorityclass", "high", "-o", "json"))
    assert (high["value"], high["preemptionPolicy"]) == (1000, "Never")


async def test_typing_errors_are_named(api: Api) -> None:
    told = await api.kubectl("create", "-f", "-", stdin=POD.replace("image:", "imag:"))
    assert 'unknown field "spec.containers[0].imag"' in told.err
    told = await api.kubectl("create", "-f", "-", stdin=POD.replace("name: web", "name: Web"))
    assert "metadata.name" in told.err
    told = await api.kubectl("get", "pods", "--field-selector=spec.bogus=1")
    assert "field label not supported: spec.bogus" in told.err


async def test_a_node_is_cordoned(api: Api) -> None:
    await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    await done(api, "cordon", "n1")
    assert "SchedulingDisabled" in await done(api, "get", "nodes")
    await done(api, "taint", "node", "n1", "dedicated=db:NoSchedule")
    await done(api, "uncordon", "n1")
    node = json.loads(await done(api, "get", "node", "n1", "-o", "json"))
    assert {each["key"] for each in node["spec"]["taints"]} == {"node.kubernetes.io/not-ready", "dedicated"}


async def test_a_manifest_with_many_objects_is_deleted_again(api: Api) -> None:
    several = "---\n".join(
        [POD, POD.replace("web", "second"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"]
    )
    assert (await done(api, "apply", "-f", "-", stdin=several)).count("created") == 3
    assert (await done(api, "delete", "-f", "-", stdin=several)).count("deleted") == 3
    assert "No resources found" in (await api.kubectl("get", "pods,configmaps")).err


async def test_a_list_is_checked_and_made(api: Api) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]})
    assert await done(api, "create", "-f", "-", stdin=given) == "configmap/a created\n"
    wrong = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{**item, "bogus": 1}]})
    assert "bogus" in (await api.kubectl("apply", "-f", "-", stdin=wrong)).err


async def test_kubectl_shows_what_is_stored_and_has_no_effect(api: Api) -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "small"}}
    told = await api.kubectl("create", "-f", "-", stdin=json.dumps({**policy, "spec": {"podSelector": {}}}))
    assert (told.code, told.out) == (0, "networkpolicy.networking.k8s.io/small created\n")
    assert told.err.startswith("Warning: the policy is stored, but nothing here enforces it")
