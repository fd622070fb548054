"""Quotas that make no sense."""

from typing import Any

import pytest

from kit.api_process import Api

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hard": {"pods": "-1"}}, "spec.hard[pods]"),
        ({"hard": {"pods": "1500m"}}, "spec.hard[pods]"),
        ({"hard": {"nothing": "1"}}, "spec.hard[nothing]"),
        ({"hard": {"pods": "1"}, "scopes": ["Sometimes"]}, "spec.scopes"),
        ({"hard": {"services": "1"}, "scopes": ["BestEffort"]}, "spec.scopes"),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, "spec.scopes"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "spec.scopeSelector.matchExpressions.values",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, spec: dict[str, Any], field: str) -> None:
    code, answer = await api.ask("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    assert code == 422, answer
    assert field in [each["field"] for each in answer["details"]["causes"]]


async def test_whom_a_quota_is_for_does_not_change(api: Api) -> None:
    hard = {"pods": "1", "count/deployments.apps": "2", "requests.example.com/gpu": "3", "hugepages-2Mi": "1Gi"}
    code, made = await api.ask(
        "POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
    )
    assert code == 201, made
    made["spec"]["scopes"] = []
    assert (await api.ask("PUT", f"{QUOTAS}/q", made))[0] == 422
    assert (await api.ask("POST", QUOTAS, {"metadata": {"name": "r"}, "spec": {"hard": hard}}))[0] == 201
