"""The resize sub-resource, asked as a kube-apiserver v1.34 was asked: the same answers."""

from typing import Any

from kit.api_process import Api, serving_api
from kit.vectors import cases

PODS = "/api/v1/namespaces/default/pods"
_KINDS = {"strategic": "application/strategic-merge-patch+json", "merge": "application/merge-patch+json"}


async def test_each_request_is_answered_as_upstream_answers_it() -> None:
    found = {}
    async with serving_api() as api:
        await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        for case in cases("pod-resize"):
            found[case["name"]] = await _answer(api, case), _expected(case)
    assert len(found) > 30
    assert [(name, ours, theirs) for name, (ours, theirs) in found.items() if ours != theirs] == []


async def _answer(api: Api, case: dict[str, Any]) -> dict[str, Any]:
    made = {"metadata": {"name": "p"}, "spec": {**case["spec"], "automountServiceAccountToken": False}}
    assert (await api.ask("POST", PODS, made))[0] == 201, case["name"]
    strategic = _KINDS["strategic"]
    if case["status"]:
        assert (await api.ask("PATCH", f"{PODS}/p/status", {"status": case["status"]}, kind=strategic))[0] == 200
    code, got = await api.ask("PATCH", f"{PODS}/p/resize", case["patch"], kind=_KINDS[case["kind"]])
    await api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    if code >= 300:
        return _refusal({"code": code, "causes": (got.get("details") or {}).get("causes", [])})
    spec, meta = got["spec"], got["metadata"]
    return {
        "code": code,
        "resources": [each.get("resources", {}) for each in (*spec.get("initContainers", []), *spec["containers"])],
        "generation": meta["generation"],
        "images": [each["image"] for each in spec["containers"]],
        "labels": meta.get("labels", {}),
    }


def _expected(case: dict[str, Any]) -> dict[str, Any]:
    if case["code"] >= 300:
        return _refusal(case)
    return {key: value for key, value in case.items() if key not in ("name", "spec", "status", "kind", "patch")}


def _refusal(answer: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with any pod is said in our own words."""
    own = ("resiz", "mutable", "removed")
    causes = [
        (each["reason"], each["field"], each["message"] if any(word in each["message"] for word in own) else "")
        for each in answer["causes"]
    ]
    return {"code": answer["code"], "causes": causes}
