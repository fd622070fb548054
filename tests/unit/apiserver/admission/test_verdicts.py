"""Policies and webhooks that ask who may do what, over the API."""

from typing import Any, Final

import pytest

from kit.api_process import Api
from pykubelet.apiserver.requests.access import AllowAll
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.status import ApiError, forbidden

ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
RULE: Final = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
ACCOUNT: Final = "system:serviceaccount:default:robot"


class Told(AllowAll):
    """Lets in whoever asks, and remembers what expressions want to know."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, RequestInfo]] = []
        self.refused: set[str] = set()
        self.fault: ApiError | None = None

    async def check(self, user: User, info: RequestInfo) -> str:
        if info.version == "*" or not info.is_resource:
            self.asked.append((user.name, info))
            if self.fault is not None:
                raise self.fault
            if info.verb in self.refused or (user.name == ACCOUNT and "account" in self.refused):
                raise forbidden(info.resource, info.name, "no", info.group)
            return f"may {info.verb}"
        return ""


@pytest.fixture
def told(api: Api) -> Told:
    api.backend.access = found = Told()
    return found


async def bound(api: Api, expression: str, **more: Any) -> tuple[int, Any]:
    rules = [{"expression": expression, **more}, {"expression": expression}]
    policy = {"matchConstraints": {"resourceRules": [RULE]}, "validations": rules}
    body = {"metadata": {"name": "p"}, "spec": policy}
    code, answer = await api.ask("POST", f"{ROOT}/validatingadmissionpolicies", body)
    if code == 201:
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        assert (await api.ask("POST", f"{ROOT}/validatingadmissionpolicybindings", binding))[0] == 201
        await api.backend.cache.list_newest("/registry/")
    return code, answer


async def create(api: Api) -> tuple[int, Any]:
    return await api.ask("POST", MAPS, {"metadata": {"name": "x"}})


async def test_a_policy_asks_whether_the_author_may_do_something_else(api: Api, told: Told) -> None:
    asks = "authorizer.group('apps').resource('deployments').subresource('scale').namespace('other').name('web')"
    assert (await bound(api, f"{asks}.labelSelector('a=b').check('breakglass').allowed()"))[0] == 201
    told.refused = {"breakglass"}
    code, answer = await create(api)
    assert (code, answer["reason"]) == (422, "Invalid"), answer
    ((who, info),) = told.asked
    assert who == "admin"
    assert (info.verb, info.group, info.resource, info.subresource) == ("breakglass", "apps", "deployments", "scale")
    assert (info.namespace, info.name, info.label_selector) == ("other", "web", "a=b")
    told.refused = set()
    assert (await create(api))[0] == 201


async def test_what_is_written_is_asked_about_by_a_name_of_its_own(api: Api, told: Told) -> None:
    await bound(api, "authorizer.requestResource.check('use').allowed()")
    assert (await create(api))[0] == 201
    ((_, info),) = told.asked
    assert (info.verb, info.group, info.resource) == ("use", "", "configmaps")
    assert (info.namespace, info.name) == ("default", "x")


async def test_several_questions_are_asked_once_each_and_joined(api: Api, told: Told) -> None:
    one, other = "authorizer.path('/metrics').check('get')", "authorizer.serviceAccount('default', 'robot')"
    await bound(api, f"{one}.reason() == 'may get' && !{other}.path('/metrics').check('get').allowed()")
    told.refused = {"account"}
    assert (await create(api))[0] == 201
    assert [(who, info.path, info.verb) for who, info in told.asked] == [
        ("admin", "/metrics", "get"),
        (ACCOUNT, "/metrics", "get"),
    ]


async def test_a_question_that_cannot_be_answered_is_no_permission(api: Api, told: Told) -> None:
    await bound(api, "authorizer.group('').resource('pods').check('get').errored()")
    told.fault = ApiError(500, "InternalError", "nobody knows")
    assert (await create(api))[0] == 201
    told.fault = None
    assert (await api.ask("POST", MAPS, {"metadata": {"name": "y"}}))[0] == 422


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('A/B', 'x').path('/').check('get').allowed()", "Invalid service account namespace"),
        ("[1,2,3].all(i, authorizer.path('/' + string(i)).check('get').allowed())", "actual cost limit exceeded"),
    ],
)
async def test_what_makes_no_question_refuses(api: Api, told: Told, expression: str, why: str) -> None:
    assert (await bound(api, expression))[0] == 201
    code, answer = await create(api)
    assert (code, why in answer["message"]) == (422, True), answer


@pytest.mark.parametrize("expression", ["authorizer.allowed()", "authorizer.group('').check('get').allowed()"])
async def test_an_expression_that_asks_wrongly_is_not_taken(api: Api, told: Told, expression: str) -> None:
    code, answer = await bound(api, expression)
    assert (code, "compilation failed" in answer["message"]) == (422, True), answer


async def test_a_message_asks_nobody(api: Api, told: Told) -> None:
    code, answer = await bound(api, "true", messageExpression="authorizer.path('/').check('get').reason()")
    assert (code, "undeclared reference to 'authorizer'" in answer["message"]) == (422, True), answer


async def test_a_condition_of_a_webhook_asks_before_the_webhook_is_called(api: Api, told: Told) -> None:
    hook = {
        "name": "v.example.com",
        "rules": [RULE],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [
            {"name": "not-for-breakglass", "expression": "!authorizer.requestResource.check('breakglass').allowed()"}
        ],
    }
    body = {"metadata": {"name": "v"}, "webhooks": [hook]}
    code, answer = await api.ask("POST", f"{ROOT}/validatingwebhookconfigurations", body)
    assert code == 201, answer
    await api.backend.cache.list_newest("/registry/")
    assert (await create(api))[0] == 201
    told.refused = {"breakglass"}
    assert (await api.ask("POST", MAPS, {"metadata": {"name": "y"}}))[0] == 500  # nobody is there to be asked
