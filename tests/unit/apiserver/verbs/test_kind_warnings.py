from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.apiserver.verbs.kind_warnings import kind_warnings

NS = "/api/v1/namespaces/default"
CLASS = "volume.beta.kubernetes.io/storage-class"
OLD_CLASS = f'metadata.annotations[{CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'
PEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"


@pytest.mark.parametrize(
    ("resource", "obj", "words"),
    [
        ("persistentvolumeclaims", {"metadata": {"annotations": {CLASS: "x"}}}, [OLD_CLASS]),
        ("persistentvolumes", {"metadata": {"annotations": {CLASS: "x"}}}, [OLD_CLASS]),
        ("persistentvolumes", {"spec": {"hostPath": {"path": "/x"}}}, []),
        (
            "persistentvolumes",
            {"spec": {"rbd": {}, "persistentVolumeReclaimPolicy": "Recycle"}},
            [
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning.",
                "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
            ],
        ),
        (
            "secrets",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "YWJj", "tls.key": PEM}},
            ["tls: failed to find any PEM data in certificate input"],
        ),
        (
            "secrets",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": PEM, "tls.key": ""}},
            ["tls: failed to find any PEM data in key input"],
        ),
        ("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": PEM, "tls.key": PEM}}, []),
        ("secrets", {"type": "Opaque", "data": {"tls.crt": "YWJj"}}, []),
        ("configmaps", {"metadata": {"annotations": {CLASS: "x"}}}, []),
    ],
)
def test_what_is_going_away_is_told(resource: str, obj: dict[str, Any], words: list[str]) -> None:
    assert list(kind_warnings(resource, obj)) == words


async def test_whoever_uses_a_kind_that_is_going_away_is_told_each_time(api: Api) -> None:
    path, warnings = f"{NS}/endpoints", []
    for method, where in (("POST", path), ("GET", path), ("GET", f"{path}/e"), ("DELETE", f"{path}/e")):
        body = {"metadata": {"name": "e"}} if method == "POST" else None
        async with api.session.request(method, api.url + where, json=body) as answer:
            assert answer.status in (200, 201)
            warnings.append(answer.headers.getall("Warning", []))
    said = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    assert warnings == [[said]] * 4
    async with api.session.get(f"{api.url}{NS}/configmaps") as answer:
        assert "Warning" not in answer.headers
