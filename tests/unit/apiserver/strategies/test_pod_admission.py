"""What a new pod gets from the cluster around it."""

from typing import Any

from kit.api_process import Api, serving_api
from pykubelet.apiserver.settings import SWITCHABLE_ADMISSION, ApiSettings

NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
MERGE = "application/merge-patch+json"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}}


async def test_a_new_pod_gets_an_account_a_token_a_priority_and_tolerations(api: Api) -> None:
    secret = {"imagePullSecrets": [{"name": "key"}]}
    await api.ask("PATCH", f"{NS}/serviceaccounts/default", secret, kind=MERGE)
    _, made = await api.ask("POST", PODS, pod())
    spec = made["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["imagePullSecrets"] == [{"name": "key"}]
    assert spec["priority"] == 0
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    volume = spec["volumes"][0]["name"]
    assert volume.startswith("kube-api-access-")
    assert spec["containers"][0]["volumeMounts"][0]["name"] == volume
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_what_is_left_out_of_admission_changes_nothing() -> None:
    left_out = frozenset(SWITCHABLE_ADMISSION)
    async with serving_api(settings=ApiSettings(without_admission=left_out)) as api:
        code, made = await api.ask("POST", PODS, pod(serviceAccountName="ghost", priorityClassName="ghost"))
        assert code == 201
        assert not {"tolerations", "volumes", "priority"} & made["spec"].keys()


async def test_a_pod_whose_account_does_not_exist_is_refused(api: Api) -> None:
    code, refused = await api.ask("POST", PODS, pod(serviceAccountName="ghost"))
    assert (code, refused["reason"]) == (403, "Forbidden")
    assert 'serviceaccount "ghost" not found' in refused["message"]


async def test_the_priority_comes_from_the_class(api: Api) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.ask("POST", path, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    _, made = await api.ask("POST", PODS, pod(priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")
    assert (await api.ask("POST", PODS, pod("q", priorityClassName="none")))[0] == 403
    assert (await api.ask("POST", PODS, pod("q", priority=7)))[0] == 403


async def test_a_runtime_class_brings_its_overhead(api: Api) -> None:
    given = {"metadata": {"name": "vm"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    await api.ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", given)
    _, made = await api.ask("POST", PODS, pod(runtimeClassName="vm"))
    assert made["spec"]["overhead"] == {"cpu": "250m"}
    assert (await api.ask("POST", PODS, pod("q", runtimeClassName="none")))[0] == 403
