"""Whoever writes what nothing acts on is told so."""

import base64
from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.apiserver.verbs.unheeded import unheeded

NS = "/api/v1/namespaces/default"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
REQUEST = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----").decode()
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
HITS = {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/default"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
ACCOUNT = {"annotations": {"kubernetes.io/service-account.name": "default"}}


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}


def csr(signer: str) -> dict[str, Any]:
    return {"spec": {"request": REQUEST, "signerName": signer, "usages": ["client auth"]}}


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


def stateful_set(claims: list[dict[str, Any]]) -> dict[str, Any]:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"app": "x"}}
    return {"spec": {"serviceName": "x", "selector": selector, "template": pod, "volumeClaimTemplates": claims}}


async def told(api: Api, method: str, path: str, body: dict[str, Any], kind: str = "application/json") -> list[str]:
    async with api.session.request(method, api.url + path, json=body, headers={"Content-Type": kind}) as answer:
        assert answer.status in (200, 201), await answer.text()
        return answer.headers.getall("Warning", [])


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"{NS}/resourcequotas", {"spec": {"hard": {"pods": "1"}}}, ""),
        (f"{NS}/limitranges", {"spec": {"limits": [{"type": "Pod"}]}}, ""),
        (HPAS, {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 2, "metrics": [HITS]}}, "no API that has them"),
        (HPAS, {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 2}}, ""),
        (f"{NS}/persistentvolumeclaims", {"spec": CLAIM}, ""),
        (STATEFUL_SETS, stateful_set([{"metadata": {"name": "data"}, "spec": CLAIM}]), ""),
        (STATEFUL_SETS, stateful_set([]), ""),
        (f"{NETWORKING}/networkpolicies", {"spec": {"podSelector": {}}}, "nothing here enforces it"),
        (f"{NETWORKING}/ingresses", {"spec": {"defaultBackend": BACKEND}}, "nothing here acts on it"),
        (f"{NS}/pods", pod(), ""),
        (f"{NS}/services", service(type="LoadBalancer"), "ClusterIP and node ports answer"),
        (f"{NS}/services", service(type="NodePort"), ""),
        (f"{NS}/secrets", {"type": "kubernetes.io/service-account-token", "metadata": ACCOUNT}, ""),
        (f"{NS}/secrets", {"stringData": {"a": "b"}}, ""),
        (f"{NS}/services", service(ipFamilyPolicy="PreferDualStack"), ""),
        (f"{NS}/services", service(clusterIP="None"), ""),
        (CSRS, csr("kubernetes.io/legacy-unknown"), "nobody here issues certificates"),
        (CSRS, csr("kubernetes.io/kube-apiserver-client"), ""),
        (CSRS, csr("kubernetes.io/kube-apiserver-client-kubelet"), ""),
        (CSRS, csr("example.com/theirs"), ""),
    ],
)
async def test_the_writer_is_warned_at_once(api: Api, path: str, body: dict[str, Any], words: str) -> None:
    found = await told(api, "POST", path, {**body, "metadata": {"name": "x", **body.get("metadata", {})}})
    assert len(found) == bool(words)
    assert all(text.startswith('299 - "') and words in text for text in found)
    async with api.session.get(f"{api.url}{path}/x") as answer:
        assert "Warning" not in answer.headers


async def test_later_writes_are_warned_of_and_others_are_not(api: Api) -> None:
    merge = "application/merge-patch+json"
    ingresses = f"{NETWORKING}/ingresses"
    await told(api, "POST", ingresses, {"metadata": {"name": "c"}, "spec": {"defaultBackend": BACKEND}})
    assert await told(api, "PATCH", f"{ingresses}/c", {"metadata": {"labels": {"a": "b"}}}, merge)
    assert not await told(api, "PATCH", f"{ingresses}/c/status", {"status": {}}, merge)


async def test_a_pod_that_is_resized_needs_no_warning(api: Api) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "nodeName": "n"}}
    assert not await told(api, "POST", f"{NS}/pods", pod)
    more = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    assert not await told(api, "PATCH", f"{NS}/pods/p/resize", more, "application/strategic-merge-patch+json")


def test_what_was_heeded_by_somebody_else_is_not_spoken_of() -> None:
    served = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    assert not [*unheeded("ingresses.networking.k8s.io", "", served)]
    assert not [*unheeded("services", "", {**service(type="LoadBalancer"), **served})]
    assert not [*unheeded("services", "", service(ipFamilies=["IPv6"], clusterIPs=["fd00::1"]))]
