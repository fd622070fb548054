"""Evictions, and the budgets that refuse them."""

from typing import Any

import pytest

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


async def pod(api: Api, name: str, *, phase: str = "Running", ready: bool = True) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n"}
    await api.ask("POST", f"{NS}/pods", {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": phase, "conditions": conditions}}
    assert (await api.ask("PATCH", f"{NS}/pods/{name}/status", status, kind=MERGE))[0] == 200


async def budget(api: Api, name: str = "b", *, spec: dict[str, Any] | None = None, **status: Any) -> None:
    whole = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **(spec or {})}
    code, made = await api.ask("POST", BUDGETS, {"metadata": {"name": name}, "spec": whole})
    assert code == 201, made
    news = {"status": {"observedGeneration": 1, "desiredHealthy": 1, "expectedPods": 2, **status}}
    assert (await api.ask("PATCH", f"{BUDGETS}/{name}/status", news, kind=MERGE))[0] == 200


async def evict(api: Api, name: str, query: str = "") -> tuple[int, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await api.ask("POST", f"{NS}/pods/{name}/eviction{query}", body)


async def test_a_pod_without_a_budget_goes_and_knows_why(api: Api) -> None:
    await pod(api, "p")
    assert (await evict(api, "p"))[0] == 201
    _, found = await api.ask("GET", f"{NS}/pods/p")
    assert found["metadata"]["deletionTimestamp"]
    told = {each["type"]: each.get("reason") for each in found["status"]["conditions"]}
    assert told["DisruptionTarget"] == "EvictionByEvictionAPI"


async def test_a_budget_is_spent_and_then_refuses(api: Api) -> None:
    for name in ("p", "q"):
        await pod(api, name)
    await budget(api, disruptionsAllowed=1, currentHealthy=2)
    assert (await evict(api, "p", "?dryRun=All"))[0] == 201
    assert (await evict(api, "p"))[0] == 201
    _, found = await api.ask("GET", f"{BUDGETS}/b")
    assert found["status"]["disruptionsAllowed"] == 0
    assert list(found["status"]["disruptedPods"]) == ["p"]
    assert [(each["type"], each["status"], each["reason"]) for each in found["status"]["conditions"]] == [
        ("DisruptionAllowed", "False", "InsufficientPods")
    ]
    code, answer = await evict(api, "q")
    assert (code, answer["reason"]) == (429, "TooManyRequests")
    assert answer["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = answer["details"]["causes"]
    assert cause == {
        "reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 2 currently",
    }
    _, left = await api.ask("GET", f"{NS}/pods/q")
    assert "deletionTimestamp" not in left["metadata"]


async def test_a_budget_that_nobody_has_looked_at_yet_refuses(api: Api) -> None:
    await pod(api, "p")
    await budget(api, observedGeneration=0, disruptionsAllowed=1)
    code, answer = await evict(api, "p")
    assert (code, answer["details"]["retryAfterSeconds"]) == (429, 10)
    assert "still being processed" in answer["details"]["causes"][0]["message"]


@pytest.mark.parametrize(
    ("phase", "ready", "spec", "healthy", "code"),
    [
        ("Pending", False, {}, 0, 201),
        ("Succeeded", False, {}, 0, 201),
        ("Running", False, {}, 0, 429),
        ("Running", False, {}, 1, 201),
        ("Running", False, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 201),
        ("Running", True, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 429),
        ("Running", True, {"selector": None}, 0, 201),
    ],
)
async def test_pods_that_nobody_misses_go_anyway(
    api: Api, phase: str, ready: bool, spec: dict[str, Any], healthy: int, code: int
) -> None:
    await pod(api, "p", phase=phase, ready=ready)
    await budget(api, spec=spec, disruptionsAllowed=0, currentHealthy=healthy)
    assert (await evict(api, "p"))[0] == code


async def test_two_budgets_for_one_pod_are_one_too_many(api: Api) -> None:
    await pod(api, "p")
    for name in ("b", "c"):
        await budget(api, name, disruptionsAllowed=1)
    code, answer = await evict(api, "p")
    assert (code, "more than one PodDisruptionBudget" in answer["message"]) == (500, True)


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 1, "maxUnavailable": 1},
        {"minAvailable": -1},
        {"maxUnavailable": "110%"},
        {"maxUnavailable": "x"},
        {"unhealthyPodEvictionPolicy": "Never"},
    ],
)
async def test_a_budget_that_makes_no_sense_is_refused(api: Api, spec: dict[str, Any]) -> None:
    assert (await api.ask("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec}))[0] == 422
