"""Certificate signing requests."""

import base64

from kit.api_process import Api


async def test_whoever_asks_for_a_certificate_is_written_down(api: Api) -> None:
    request = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----").decode()
    spec = {"request": request, "signerName": "a.b/c", "usages": ["client auth"], "username": "somebody else"}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    forged = {"pykubelet.dev/source-address": "10.0.0.5", "mine": "kept"}
    _, made = await api.ask("POST", path, {"metadata": {"name": "r", "annotations": forged}, "spec": spec})
    assert made["spec"]["username"] == "admin"
    assert made["metadata"]["annotations"] == {"pykubelet.dev/source-address": "", "mine": "kept"}
    approved = {**made, "status": {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}}
    _, after = await api.ask("PUT", f"{path}/r/approval", approved)
    assert after["status"]["conditions"][0]["lastUpdateTime"]
    assert "certificate" not in after["status"]


async def test_a_certificate_request_may_have_any_name_that_can_stand_in_a_path(api: Api) -> None:
    request = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----").decode()
    spec = {"request": request, "signerName": "a.b/c", "usages": ["client auth"]}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for name, wanted in (("node-csr-SWFAXEq_VdvSS2qX-M", 201), ("a/b", 422), ("..", 422), ("a%b", 422), ("a\0b", 422)):
        code, answer = await api.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert code == wanted, answer
