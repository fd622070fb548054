"""Limit ranges."""

from typing import Any

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}


async def test_a_limit_range_fills_in_what_containers_leave_open_and_bounds_the_rest(api: Api) -> None:
    limit = {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
    _, made = await api.ask("POST", f"{NS}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "1"}
    _, small = await api.ask("POST", PODS, pod("a"))
    assert small["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    assert small["status"]["qosClass"] == "Burstable"
    assert "cpu limit for container c" in small["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    large = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]
    code, refused = await api.ask("POST", PODS, pod("b", containers=large))
    assert code == 403
    assert "maximum cpu usage per Container is 1, but limit is 2" in refused["message"]
