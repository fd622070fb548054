"""Pod security by the labels of namespaces, over the API."""

from typing import Any, Final

from kit.api_process import Api
from pykubelet.apiserver.admission.pod_security import PodSecurity, Standard, policy_of
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.requests.users import authenticated

LABEL: Final = "pod-security.kubernetes.io/"
PODS: Final = "/api/v1/namespaces/x/pods"
SAFE: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str = "p", context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", **({"securityContext": context} if context else {})}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def namespace(api: Api, **labels: str) -> None:
    given = {f"{LABEL}{key.replace('_', '-')}": value for key, value in labels.items()}
    code, answer = await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "x", "labels": given}})
    assert code == 201, answer


async def told(api: Api, method: str, path: str, body: Any) -> tuple[int, Any, str]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    async with api.session.request(method, api.url + path, json=body, headers={"Content-Type": kind}) as answer:
        return answer.status, await answer.json(), ", ".join(answer.headers.getall("Warning", []))


async def test_without_labels_everything_is_let_in(api: Api) -> None:
    await namespace(api)
    code, _, warning = await told(api, "POST", PODS, pod(context={"privileged": True}))
    assert (code, warning) == (201, "")
    code, _, warning = await told(api, "POST", PODS, pod("q", hostNetwork=True))
    assert (code, warning) == (201, "")


async def test_what_a_level_forbids_is_refused_with_all_reasons(api: Api) -> None:
    await namespace(api, enforce="baseline", enforce_version="v1.30")
    code, answer, _ = await told(api, "POST", PODS, pod(context={"privileged": True}, hostPID=True))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true), privileged '
        '(container "c" must not set securityContext.privileged=true)'
    )
    assert (await told(api, "POST", PODS, pod()))[0] == 201


async def test_a_restricted_namespace_takes_what_is_safe(api: Api) -> None:
    await namespace(api, enforce="restricted")
    code, answer, _ = await told(api, "POST", PODS, pod())
    assert code == 403
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in answer["message"]
    assert (await told(api, "POST", PODS, pod(context=SAFE)))[0] == 201


async def test_who_only_wants_to_be_told_is_told(api: Api) -> None:
    await namespace(api, warn="baseline")
    code, _, warning = await told(api, "POST", PODS, pod(hostNetwork=True))
    assert code == 201
    assert 'would violate PodSecurity \\"baseline:latest\\": host namespaces (hostNetwork=true)' in warning


async def test_a_template_is_never_refused_but_its_author_is_told(api: Api) -> None:
    await namespace(api, enforce="baseline")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostNetwork=True)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/x/deployments"
    code, answer, warning = await told(api, "POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert code == 201, answer
    assert "host namespaces" in warning


async def test_a_pod_that_is_there_may_be_changed_but_not_become_another(api: Api) -> None:
    await namespace(api)
    assert (await told(api, "POST", PODS, pod(hostNetwork=True)))[0] == 201
    labels = {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}}
    code, _, warning = await told(api, "PATCH", "/api/v1/namespaces/x", labels)
    assert code == 200
    assert (
        'existing pods in namespace \\"x\\" violate the new PodSecurity enforce level \\"baseline:latest\\"' in warning
    )
    assert "p: host namespaces" in warning
    assert (await told(api, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}))[0] == 200
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    kind = "application/strategic-merge-patch+json"
    assert (await api.ask("PATCH", f"{PODS}/p", image, kind=kind))[0] == 403
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    assert (await api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", debugger, kind=kind))[0] == 403


async def test_labels_that_cannot_be_read_are_refused_and_where_they_are_nothing_gets_in(api: Api) -> None:
    body = {"metadata": {"name": "x", "labels": {f"{LABEL}enforce": "strict", f"{LABEL}warn-version": "1.2"}}}
    code, answer, _ = await told(api, "POST", "/api/v1/namespaces", body)
    assert code == 422
    assert [cause["field"] for cause in answer["details"]["causes"]] == [
        f"metadata.labels[{LABEL}enforce]",
        f"metadata.labels[{LABEL}warn-version]",
    ]


def test_what_cannot_be_read_refuses_most_and_tells_nothing() -> None:
    policy, errors = policy_of({f"{LABEL}{mode}": "strict" for mode in ("enforce", "audit", "warn")})
    assert len(errors) == 3
    assert (policy.enforce, policy.audit, policy.warn) == (Standard("restricted"), Standard(), Standard())


def test_who_refuses_also_warns_of_templates() -> None:
    policy, _ = policy_of({f"{LABEL}enforce": "baseline", f"{LABEL}enforce-version": "v1.25"})
    assert policy.warn == Standard("baseline", 25)
    policy, _ = policy_of({f"{LABEL}enforce": "baseline", f"{LABEL}warn": "privileged"})
    assert policy.warn == Standard()


async def test_the_audit_log_is_told_what_is_enforced_and_what_would_be_forbidden(api: Api) -> None:
    await namespace(api, audit="restricted", enforce="baseline")
    notes: dict[str, str] = {}
    whole = pod(context=SAFE | {"runAsNonRoot": None})
    attempt = Attempt(
        operation="CREATE",
        resource=api.backend.resources.of("", "pods"),
        part="",
        namespace="x",
        name="p",
        obj=whole,
        old=None,
        user=authenticated("bob"),
        options={},
        dry_run=False,
        warnings=[],
        notes=notes,
    )
    await PodSecurity(api.backend).validate(attempt)
    assert notes[f"{LABEL}enforce-policy"] == "baseline:latest"
    assert notes[f"{LABEL}audit-violations"] == (
        'would violate PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "c" must set '
        "securityContext.runAsNonRoot=true)"
    )
