"""Validating admission policies, over the API."""

from typing import Any, Final

import pytest

from kit.api_process import Api
from kit.loop_hold import watched_loop
from pykubelet.apiserver.objects import stored

GROUP: Final = "admissionregistration.k8s.io"
ROOT: Final = f"/apis/{GROUP}/v1"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
RULE: Final = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


async def made(api: Api, plural: str, name: str, spec: dict[str, Any]) -> None:
    code, answer = await api.ask("POST", f"{ROOT}/{plural}", {"metadata": {"name": name}, "spec": spec})
    assert code == 201, answer
    await api.backend.cache.list_newest("/registry/")


async def policy(api: Api, *validations: dict[str, Any], name: str = "p", **more: Any) -> None:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations), **more}
    await made(api, "validatingadmissionpolicies", name, spec)


async def binding(api: Api, *actions: str, policy: str = "p", name: str = "b", **more: Any) -> None:
    spec = {"policyName": policy, "validationActions": list(actions) or ["Deny"], **more}
    await made(api, "validatingadmissionpolicybindings", name, spec)


async def create(api: Api, name: str = "x", **data: str) -> tuple[int, Any]:
    return await api.ask("POST", MAPS, {"metadata": {"name": name}, "data": data})


BIG: Final = {"expression": "!has(object.data) || size(object.data) <= 1"}


async def test_what_a_policy_refuses_is_refused_once_it_is_bound(api: Api) -> None:
    await policy(api, {**BIG, "message": "one entry at most"})
    assert (await create(api, "free", a="1", b="2"))[0] == 201
    await binding(api)
    code, answer = await create(api, a="1", b="2")
    words = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: one entry at most"
    assert (code, answer["reason"]) == (422, "Invalid"), answer
    assert answer["message"] == f'configmaps "x" is forbidden: {words}'
    assert answer["details"]["causes"] == [{"message": words}]
    assert (await create(api, a="1"))[0] == 201


async def test_the_message_and_the_reason_are_the_policys(api: Api) -> None:
    await policy(
        api,
        {**BIG, "reason": "Forbidden", "messageExpression": "'not ' + string(size(object.data)) + ' entries'"},
    )
    await binding(api)
    code, answer = await create(api, a="1", b="2")
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].endswith("denied request: not 2 entries")


async def test_without_a_message_the_expression_speaks_for_itself(api: Api) -> None:
    await policy(api, {"expression": " object.metadata.name != 'x' "})
    await binding(api)
    assert (await create(api))[1]["message"].endswith("failed expression: object.metadata.name != 'x'")


async def test_variables_conditions_and_the_request_are_seen(api: Api) -> None:
    await policy(
        api,
        {"expression": "variables.both >= 2 && request.userInfo.username == 'admin'"},
        {"expression": "namespaceObject.metadata.name == 'default' && oldObject == null"},
        variables=[
            {"name": "own", "expression": "size(object.data)"},
            {"name": "both", "expression": "variables.own + 1"},
        ],
        matchConditions=[{"name": "not-free", "expression": "!object.metadata.name.startsWith('free')"}],
    )
    await binding(api)
    assert (await create(api, a="1"))[0] == 201
    assert (await create(api, "free"))[0] == 201
    code, answer = await create(api, "y")
    assert (code, "failed expression: variables.both" in answer["message"] or "error" in answer["message"]) == (
        422,
        True,
    )
    code, answer = await api.ask("PUT", f"{MAPS}/x", {"metadata": {"name": "x"}, "data": {"a": "2"}})
    assert (code, "oldObject == null" in answer["message"]) == (422, True), answer


async def test_who_only_wants_to_be_told_is_told(api: Api) -> None:
    await policy(api, {**BIG, "message": "too many"})
    await binding(api, "Warn", "Audit")
    body = {"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}}
    async with api.session.post(api.url + MAPS, json=body) as answer:
        assert answer.status == 201
        assert (
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': too many"
            in answer.headers["Warning"]
        )


async def test_what_goes_wrong_counts_as_the_policy_wants_it(api: Api) -> None:
    wrong = {"expression": "object.data.none == 'x'"}
    await policy(api, wrong, failurePolicy="Ignore")
    await binding(api)
    assert (await create(api, "a", k="v"))[0] == 201
    await policy(api, wrong, name="q")
    await binding(api, policy="q", name="c")
    code, answer = await create(api, "b", k="v")
    assert (code, "resulted in error" in answer["message"]) == (422, True), answer


async def test_a_binding_chooses_among_what_the_policy_is_for(api: Api) -> None:
    await policy(api, {"expression": "false", "message": "no"})
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    await binding(api, matchResources=chosen)
    assert (await create(api))[0] == 201
    code, _ = await api.ask("POST", "/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "x"}})
    assert code == 422


async def test_parameters_are_objects_that_the_binding_names(api: Api) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await policy(api, {"expression": "size(object.data) <= int(params.data.most)"}, paramKind=kind)
    reference = {"name": "limits", "namespace": "kube-public", "parameterNotFoundAction": "Deny"}
    await binding(api, paramRef=reference)
    code, answer = await create(api, a="1")
    assert (code, "failed to configure binding: no params found" in answer["message"]) == (422, True), answer
    # the limits themselves are config maps, too, which the policy has nothing to go by for as yet
    await made_limits(api)
    assert (await create(api, "one", a="1"))[0] == 201
    assert (await create(api, "two", a="1", b="2"))[0] == 422


async def made_limits(api: Api) -> None:
    """As if they had been there before the policy."""
    resource = api.backend.resources.of("", "configmaps")
    metadata = {"name": "limits", "namespace": "kube-public", "uid": "u"}
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"most": "1"}}
    await api.backend.store.create(resource.key("kube-public", "limits"), stored(whole))
    await api.backend.cache.list_newest("/registry/")


async def test_a_kind_of_parameters_that_is_gone_refuses_whatever_the_binding_says(api: Api) -> None:
    await policy(api, {"expression": "true"}, paramKind={"apiVersion": "no.such/v1", "kind": "None"})
    await binding(api, "Warn")
    code, answer = await create(api)
    words = "failed to configure policy: failed to find resource referenced by paramKind: 'no.such/v1, Kind=None'"
    assert (code, answer["message"].endswith(f"ValidatingAdmissionPolicy 'p' denied request: {words}")) == (422, True)


@pytest.mark.parametrize(("wanted", "code"), [("Fail", 422), ("Ignore", 201), ("Odd", 422)])
async def test_a_policy_that_was_spoilt_in_the_store_decides_by_its_failure_policy(
    api: Api, wanted: str, code: int
) -> None:
    await policy(api, {"expression": "true"})
    await binding(api)
    key = api.backend.resources.of(GROUP, "validatingadmissionpolicies").key("", "p")
    entry = await api.backend.store.get(key)
    assert entry is not None
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": "text", "failurePolicy": wanted}
    whole = {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}
    await api.backend.store.update(key, stored(whole), revision=entry.revision)
    await api.backend.cache.list_newest("/registry/")
    assert (await create(api))[0] == code


async def test_nobody_shuts_himself_out_of_policies(api: Api) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await policy(api, {"expression": "false"}, matchConstraints={"resourceRules": [everything]})
    await binding(api)
    assert (await create(api))[0] == 422
    assert (await api.ask("DELETE", f"{ROOT}/validatingadmissionpolicybindings/b"))[0] == 200
    await api.backend.cache.list_newest("/registry/")
    assert (await create(api))[0] == 201


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"validations": [{"expression": "1 +"}]}, ["spec.validations[0].expression"]),
        ({"validations": [{"expression": "'text'"}]}, ["spec.validations[0].expression"]),
        ({"validations": [{"expression": "params.x"}]}, ["spec.validations[0].expression"]),
        ({"validations": [{**BIG, "reason": "Odd"}]}, ["spec.validations[0].reason"]),
        ({"validations": [{**BIG, "messageExpression": "1"}]}, ["spec.validations[0].messageExpression"]),
        ({"validations": []}, ["spec.validations", "spec.auditAnnotations"]),
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules"]),
        ({"variables": [{"name": "a-b", "expression": "1"}]}, ["spec.variables[0].name"]),
        ({"validations": [{**BIG, "reason": "Unauthorized"}]}, ["spec.validations[0].reason"]),
        ({"validations": [{**BIG, "messageExpression": "object.x"}]}, ["spec.validations[0].messageExpression"]),
        ({"validations": [{"expression": "object.x"}]}, ["spec.validations[0].expression"]),
        ({"validations": [{"expression": "variables.x == 1"}]}, ["spec.validations[0].expression"]),
        (
            {"validations": [{"expression": "variables.x"}], "variables": [{"name": "x", "expression": "1"}]},
            ["spec.validations[0].expression"],
        ),
        (
            {"variables": [{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "1"}]},
            ["spec.variables[0].expression"],
        ),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}, ["spec.auditAnnotations[0].valueExpression"]),
        ({"failurePolicy": "Maybe"}, ["spec.failurePolicy"]),
        ({"paramKind": {"apiVersion": "a/b/c", "kind": "X y"}}, ["spec.paramKind.apiVersion", "spec.paramKind.kind"]),
        ({"paramKind": {"kind": "X"}}, ["spec.paramKind.apiVersion"]),
    ],
)
async def test_what_a_policy_says_is_checked_when_it_is_written(api: Api, change: Any, fields: list[str]) -> None:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [BIG], **change}
    code, answer = await api.ask(
        "POST", f"{ROOT}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
    )
    assert code == 422, answer
    assert [each["field"] for each in answer["details"]["causes"]] == fields


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"policyName": ""}, ["spec.policyName"]),
        ({"validationActions": []}, ["spec.validationActions"]),
        ({"validationActions": ["Deny", "Warn"]}, ["spec.validationActions"]),
        ({"validationActions": ["Cry"]}, ["spec.validationActions[0]"]),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, ["spec.paramRef"]),
        ({"paramRef": {"name": "x"}}, ["spec.paramRef.parameterNotFoundAction"]),
    ],
)
async def test_what_a_binding_says_is_checked_when_it_is_written(api: Api, change: Any, fields: list[str]) -> None:
    spec = {"policyName": "p", "validationActions": ["Deny"], **change}
    path = f"{ROOT}/validatingadmissionpolicybindings"
    code, answer = await api.ask("POST", path, {"metadata": {"name": "b"}, "spec": spec})
    assert code == 422, answer
    assert [each["field"] for each in answer["details"]["causes"]] == fields


async def test_an_expression_that_takes_long_keeps_nobody_else_waiting(api: Api) -> None:
    loop = "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0))"
    await policy(api, {"expression": f"{loop} && {loop}"})
    await binding(api, "Deny")

    with watched_loop() as hold:
        code, told = await create(api)

    assert (code, "actual cost limit exceeded" in told["message"]) == (422, True)
    assert hold.step < 0.2, hold.where
