"""Events, in both of their groups."""

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"


async def test_an_event_is_one_object_in_two_groups(api: Api) -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Killed",
        "message": "too large",
        "source": {"component": "kubelet"},
    }
    await api.ask("POST", f"{NS}/events", core)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    _, new = await api.ask("GET", f"{events}/e")
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "too large", "p")
    await api.ask("PATCH", f"{events}/e", {"note": "much too large"}, kind=MERGE)
    _, old = await api.ask("GET", f"{NS}/events?fieldSelector=involvedObject.name%3Dp,source%3Dkubelet")
    assert [each["message"] for each in old["items"]] == ["much too large"]
    _, listed = await api.ask("GET", f"{events}?fieldSelector=regarding.name%3Dp")
    assert [each["note"] for each in listed["items"]] == ["much too large"]
