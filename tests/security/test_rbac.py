"""Attempts to have more rights than were given: each is made over TLS with a token of its own, and has to fail."""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.tls_world import World

GROUP: Final = "rbac.authorization.k8s.io"
RBAC: Final = f"/apis/{GROUP}/v1"
CORE: Final = "/api/v1/namespaces/default"
HERE: Final = f"{RBAC}/namespaces/default"
CSRS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EVERYTHING: Final = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
PODS: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
RIGHTS: Final = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "get", "list", "patch", "update"]}
"""To write roles and bindings, and nothing else."""


class Attacker:
    """A service account with rights that a test gives it."""

    name: Final = "system:serviceaccount:default:eve"

    def __init__(self, world: World, token: str) -> None:
        self.world = world
        self.token = token

    async def ask(self, method: str, path: str, body: Any = None, **how: Any) -> tuple[int, Any]:
        return await self.world.ask(method, path, token=self.token, body=body, **how)

    async def give(self, *rules: dict[str, Any]) -> None:
        """In the whole cluster."""
        await made(self.world, f"{RBAC}/clusterroles", role("ClusterRole", "eves", *rules))
        await made(self.world, f"{RBAC}/clusterrolebindings", binding("ClusterRoleBinding", "eves", "eves"))

    async def give_here(self, *rules: dict[str, Any]) -> None:
        """In the namespace default."""
        await made(self.world, f"{HERE}/roles", role("Role", "eves", *rules))
        await made(self.world, f"{HERE}/rolebindings", binding("RoleBinding", "eves", "eves", kind="Role"))


async def made(world: World, path: str, body: Any) -> Any:
    code, answer = await world.ask("POST", path, body=body)
    assert code == 201, answer
    return answer


def role(kind: str, name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **more}


def binding(kind_: str, name: str, to: str, *, kind: str = "ClusterRole", **more: Any) -> dict[str, Any]:
    eve = {"kind": "ServiceAccount", "name": "eve", "namespace": "default"}
    whole: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": kind_, "metadata": {"name": name}, "subjects": [eve]}
    return {**whole, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to}, **more}


@pytest.fixture
async def eve(world: World) -> AsyncGenerator[Attacker, None]:
    await made(world, f"{CORE}/serviceaccounts", {"metadata": {"name": "eve"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await made(world, f"{CORE}/serviceaccounts/eve/token", asked)
    attacker = Attacker(world, answer["status"]["token"])
    assert (await attacker.ask("GET", f"{CORE}/pods"))[0] == 403
    yield attacker
    # Whatever was tried: it has not become more.
    assert (await attacker.ask("GET", "/api/v1/namespaces/kube-system/secrets"))[0] in (401, 403)
    assert (await attacker.ask("GET", "/metrics"))[0] in (401, 403)


HELD: Final = "is attempting to grant RBAC permissions not currently held"


async def test_nobody_gives_himself_more_by_changing_his_own_role(eve: Attacker) -> None:
    await eve.give_here(RIGHTS, PODS)
    more = role("Role", "eves", RIGHTS, PODS, EVERYTHING)
    ways: list[tuple[str, str, Any, dict[str, str]]] = [
        ("PUT", f"{HERE}/roles/eves", more, {}),
        ("PUT", f"{HERE}/roles/new", role("Role", "new", EVERYTHING), {}),
        ("POST", f"{HERE}/roles", role("Role", "new", EVERYTHING), {}),
        ("PATCH", f"{HERE}/roles/eves", {"rules": [EVERYTHING]}, {"Content-Type": "application/merge-patch+json"}),
        (
            "PATCH",
            f"{HERE}/roles/eves",
            [{"op": "add", "path": "/rules/-", "value": EVERYTHING}],
            {"Content-Type": "application/json-patch+json"},
        ),
        (
            "PATCH",
            f"{HERE}/roles/new?fieldManager=eve",
            role("Role", "new", EVERYTHING),
            {"Content-Type": "application/apply-patch+yaml"},
        ),
        (
            "PATCH",
            f"{HERE}/roles/eves?fieldManager=eve&force=true",
            more,
            {"Content-Type": "application/apply-patch+yaml"},
        ),
    ]
    for method, path, body, headers in ways:
        for suffix in ("", "&dryRun=All" if "?" in path else "?dryRun=All"):
            code, answer = await eve.ask(method, path + suffix, body, headers=headers)
            assert (code, HELD in answer["message"]) == (403, True), (method, path, answer)
    code, answer = await eve.ask("POST", f"{HERE}/roles", role("Role", "same", PODS))
    assert code == 201, answer


async def test_nobody_binds_a_role_with_more_than_he_has(eve: Attacker) -> None:
    await eve.give(RIGHTS)
    for path, kind in ((f"{HERE}/rolebindings", "RoleBinding"), (f"{RBAC}/clusterrolebindings", "ClusterRoleBinding")):
        for target in ("cluster-admin", "system:aggregate-to-edit"):
            code, answer = await eve.ask("POST", path, binding(kind, "mine", target))
            assert (code, HELD in answer["message"]) == (403, True), answer
        code, answer = await eve.ask("POST", path, binding(kind, "mine", "not-there-yet"))
        assert (code, answer["reason"]) == (404, "NotFound"), answer
    # nor by way of a binding that is there: with oneself among its subjects, or with another role
    code, live = await eve.world.ask("GET", f"{RBAC}/clusterrolebindings/cluster-admin")
    live["subjects"].append({"kind": "User", "apiGroup": GROUP, "name": eve.name})
    code, answer = await eve.ask("PUT", f"{RBAC}/clusterrolebindings/cluster-admin", live)
    assert (code, HELD in answer["message"]) == (403, True), answer
    changed = binding("ClusterRoleBinding", "eves", "cluster-admin")
    assert (await eve.ask("PUT", f"{RBAC}/clusterrolebindings/eves", changed))[0] == 403
    assert (await eve.world.ask("PUT", f"{RBAC}/clusterrolebindings/eves", body=changed))[0] == 422


async def test_the_right_to_bind_one_role_is_none_to_bind_another_or_elsewhere(eve: Attacker) -> None:
    bind = {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]}
    write = {"apiGroups": [GROUP], "resources": ["rolebindings", "clusterrolebindings"], "verbs": ["create"]}
    await eve.give_here(bind, write)
    assert (await eve.ask("POST", f"{HERE}/rolebindings", binding("RoleBinding", "v", "view")))[0] == 201
    assert (await eve.ask("POST", f"{HERE}/rolebindings", binding("RoleBinding", "e", "cluster-admin")))[0] == 403
    whole = binding("ClusterRoleBinding", "v", "view")
    assert (await eve.ask("POST", f"{RBAC}/clusterrolebindings", whole))[0] == 403
    elsewhere = f"{RBAC}/namespaces/kube-system/rolebindings"
    assert (await eve.ask("POST", elsewhere, binding("RoleBinding", "v", "view")))[0] == 403


async def test_the_right_to_escalate_one_role_is_none_to_make_others(eve: Attacker) -> None:
    escalate = {**RIGHTS, "resources": ["roles"], "verbs": ["escalate", "update"], "resourceNames": ["eves"]}
    await eve.give_here(escalate, {**RIGHTS, "resources": ["roles"], "verbs": ["create"]})
    assert (await eve.ask("POST", f"{HERE}/roles", role("Role", "new", EVERYTHING)))[0] == 403
    assert (await eve.ask("PUT", f"{HERE}/roles/new", role("Role", "new", EVERYTHING)))[0] == 403
    code, answer = await eve.ask("PUT", f"{HERE}/roles/eves", role("Role", "eves", escalate, PODS))
    assert code == 200, answer


async def test_roles_that_gather_others_need_all_rights(eve: Attacker) -> None:
    await eve.give(RIGHTS, PODS)
    everything = {"clusterRoleSelectors": [{"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}
    gathers = role("ClusterRole", "gathers", aggregationRule=everything)
    code, answer = await eve.ask("POST", f"{RBAC}/clusterroles", gathers)
    assert (code, "must have cluster-admin privileges" in answer["message"]) == (403, True), answer
    code, answer = await eve.ask("PUT", f"{RBAC}/clusterroles/eves", {**gathers, "metadata": {"name": "eves"}})
    assert code == 403, answer
    # nor may what a gathering role has be changed by one who has less, whatever is left of it
    code, answer = await eve.ask("PUT", f"{RBAC}/clusterroles/view", role("ClusterRole", "view", PODS))
    assert (code, "must have cluster-admin privileges" in answer["message"]) == (403, True), answer
    # a label makes a role part of another, but only with rights that one has
    labelled = role("ClusterRole", "into-view", EVERYTHING)
    labelled["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert (await eve.ask("POST", f"{RBAC}/clusterroles", labelled))[0] == 403


async def test_nobody_becomes_somebody_else_without_the_right_to_just_that(eve: Attacker) -> None:
    async def acting(*headers: tuple[str, str]) -> tuple[int, Any]:
        return await eve.ask("GET", "/api/v1/nodes", headers=dict(headers))

    admin, masters = ("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")
    for headers in ((admin,), (admin, masters), (("Impersonate-User", "system:anonymous"), masters)):
        code, answer = await acting(*headers)
        assert (code, 'cannot impersonate resource "users"' in answer["message"]) == (403, True), answer
    await eve.give(
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["admin"]},
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["dev"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/team"], "verbs": ["impersonate"]},
    )
    said: dict[str, tuple[tuple[str, str], ...]] = {
        'User "admin" cannot list resource "nodes"': (admin,),
        'cannot impersonate resource "groups"': (admin, masters),
        'cannot impersonate resource "users"': (("Impersonate-User", "root"),),
        'cannot impersonate resource "serviceaccounts"': (("Impersonate-User", "system:serviceaccount:default:x"),),
        'cannot impersonate resource "userextras/other"': (admin, ("Impersonate-Extra-Other", "x")),
        'cannot impersonate resource "uids"': (admin, ("Impersonate-Uid", "x")),
    }
    for words, given in said.items():
        code, answer = await acting(*given)
        assert (code, words in answer["message"]) == (403, True), answer
    for part in (masters, ("Impersonate-Uid", "x"), ("Impersonate-Extra-Team", "x")):
        assert (await acting(part))[0] == 400
    code, answer = await acting(admin, ("Impersonate-Group", "dev"), ("Impersonate-Extra-Team", "x"))
    assert (code, 'User "admin" cannot list' in answer["message"]) == (403, True), answer


async def test_a_role_of_a_namespace_opens_nothing_of_the_cluster(eve: Attacker) -> None:
    await eve.give_here(EVERYTHING)
    assert (await eve.ask("GET", f"{CORE}/secrets"))[0] == 200
    for method, path in (
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces"),
        ("GET", "/api/v1/persistentvolumes"),
        ("GET", f"{RBAC}/clusterroles"),
        ("DELETE", "/api/v1/nodes/n1"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/watch/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/namespaces/default%2F..%2Fkube-system/secrets"),
        ("POST", f"{RBAC}/clusterrolebindings"),
    ):
        assert (await eve.ask(method, path))[0] == 403, path
    assert (await eve.ask("GET", f"{CORE}/nodes"))[0] == 404
    code, _ = await eve.ask("POST", f"{RBAC}/clusterrolebindings", binding("ClusterRoleBinding", "x", "cluster-admin"))
    assert code == 403
    # all rights here are those to give all rights here, and with that not one elsewhere
    assert (await eve.ask("POST", f"{HERE}/rolebindings", binding("RoleBinding", "x", "cluster-admin")))[0] == 201


async def test_names_in_a_rule_give_nothing_to_requests_without_a_name(eve: Attacker) -> None:
    for name in ("mine", "theirs"):
        await made(eve.world, f"{CORE}/configmaps", {"metadata": {"name": name}})
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"], "resourceNames": ["mine"]}
    await eve.give_here(rule)
    assert (await eve.ask("GET", f"{CORE}/configmaps/mine"))[0] == 200
    assert (await eve.ask("GET", f"{CORE}/configmaps?fieldSelector=metadata.name=mine"))[0] == 200
    for method, path in (
        ("GET", f"{CORE}/configmaps"),
        ("GET", f"{CORE}/configmaps/theirs"),
        ("GET", f"{CORE}/configmaps?watch=true"),
        ("GET", f"{CORE}/configmaps?fieldSelector=metadata.name!=mine"),
        ("GET", f"{CORE}/configmaps?fieldSelector=metadata.name=theirs"),
        ("GET", f"{CORE}/configmaps?fieldSelector=metadata.name=mine,metadata.name=theirs&x="),
        ("GET", f"{CORE}/configmaps?fieldSelector=metadata.name=theirs&fieldSelector=metadata.name=mine"),
        ("GET", f"{CORE}/configmaps?fieldSelector=metadata.name=mine&fieldSelector=metadata.name=theirs"),
        ("DELETE", f"{CORE}/configmaps"),
        ("DELETE", f"{CORE}/configmaps?fieldSelector=metadata.name=mine"),
        ("POST", f"{CORE}/configmaps"),
    ):
        code, answer = await eve.ask(method, path, {"metadata": {"name": "mine"}} if method == "POST" else None)
        items = [each["metadata"]["name"] for each in answer.get("items", ())] if code == 200 else []
        assert code == 403 or items in ([], ["mine"]), (method, path, answer)
        assert code == 403 or method == "GET", (method, path, answer)


async def test_who_may_change_what_is_there_may_not_therefore_make_what_is_not(eve: Attacker) -> None:
    await eve.give_here({"apiGroups": ["", GROUP], "resources": ["*"], "verbs": ["patch", "update", "get"]})
    applied = {"Content-Type": "application/apply-patch+yaml"}
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    for method, path, body, headers in (
        ("PATCH", f"{CORE}/configmaps/new?fieldManager=e", new, applied),
        ("PUT", f"{HERE}/roles/new", role("Role", "new"), {}),
    ):
        code, answer = await eve.ask(method, path, body, headers=headers)
        assert (code, "cannot create resource" in answer["message"]) == (403, True), answer


async def test_the_token_of_an_account_that_is_gone_opens_nothing(eve: Attacker) -> None:
    await eve.give(PODS)
    assert (await eve.ask("GET", f"{CORE}/pods"))[0] == 200
    code, _ = await eve.world.ask("DELETE", f"{CORE}/serviceaccounts/eve")
    assert code == 200
    assert (await eve.ask("GET", f"{CORE}/pods"))[0] == 401
    await made(eve.world, f"{CORE}/serviceaccounts", {"metadata": {"name": "eve"}})  # another one of its name
    assert (await eve.ask("GET", f"{CORE}/pods"))[0] == 401


async def test_what_is_taken_away_is_gone_for_who_had_it(eve: Attacker) -> None:
    await eve.give(PODS)
    assert (await eve.ask("GET", f"{CORE}/pods"))[0] == 200
    assert (await eve.world.ask("DELETE", f"{RBAC}/clusterrolebindings/eves"))[0] == 200
    async with asyncio.timeout(10):
        while (await eve.ask("GET", f"{CORE}/pods"))[0] != 403:
            pass


async def test_a_node_gets_no_rights_that_it_writes_itself(world: World) -> None:
    for path, body in (
        (f"{RBAC}/clusterrolebindings", binding("ClusterRoleBinding", "x", "cluster-admin")),
        (f"{RBAC}/clusterroles", role("ClusterRole", "x", EVERYTHING)),
        (f"{HERE}/roles", role("Role", "x")),
    ):
        assert (await world.ask("POST", path, user="n1", body=body))[0] == 403
    assert (await world.ask("GET", f"{RBAC}/clusterroles", user="n1"))[0] == 403
    assert (await world.ask("GET", f"{CORE}/secrets", user="n1", headers={"Impersonate-User": "admin"}))[0] == 403


def request_for(name: str, *groups: str) -> str:
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


async def test_who_may_write_approvals_may_not_therefore_approve_for_every_signer(eve: Attacker) -> None:
    signer = "kubernetes.io/kube-apiserver-client"
    spec = {"signerName": signer, "usages": ["client auth"], "request": request_for("admin", "kubeadm:cluster-admins")}
    whole = {"metadata": {"name": "x"}, "spec": spec}
    csrs = {"apiGroups": ["certificates.k8s.io"], "verbs": ["*"]}
    await eve.give(
        {**csrs, "resources": [f"certificatesigningrequests{part}" for part in ("", "/approval", "/status")]}
    )
    code, live = await eve.ask("POST", CSRS, whole)
    assert code == 201, live
    live["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x", "message": "x"}]}
    for part, verb in (("approval", "approve"), ("status", "sign")):
        code, answer = await eve.ask("PUT", f"{CSRS}/x/{part}", live)
        words = f'user not permitted to {verb} requests with signerName "{signer}"'
        assert (code, words in answer["message"]) == (403, True), answer
    masters = {**spec, "request": request_for("admin", "system:masters")}
    assert (await eve.ask("POST", CSRS, {"metadata": {"name": "y"}, "spec": masters}))[0] == 403
    rights = role("ClusterRole", "approves", {**csrs, "resources": ["signers"], "resourceNames": ["kubernetes.io/*"]})
    await made(eve.world, f"{RBAC}/clusterroles", rights)
    await made(eve.world, f"{RBAC}/clusterrolebindings", binding("ClusterRoleBinding", "approves", "approves"))
    code, answer = await eve.ask("PUT", f"{CSRS}/x/approval", live)
    assert code == 200, answer


async def test_a_small_role_with_a_billion_combinations_holds_nobody_up(eve: Attacker) -> None:
    await eve.give(RIGHTS)
    many = [f"x{number}" for number in range(1000)]
    huge = {"apiGroups": many, "resources": many, "verbs": many}
    began = time.monotonic()
    code, answer = await eve.ask("POST", f"{RBAC}/clusterroles", role("ClusterRole", "huge", huge))
    assert (code, "too many combinations" in answer["message"]) == (403, True), answer
    assert time.monotonic() - began < 5


async def test_neither_many_small_rules_nor_few_large_ones_hold_anybody_up(eve: Attacker) -> None:
    """A tenant with rights of his own compares them with each other, as often as he likes."""
    own = [{"apiGroups": [""], "resources": [f"r{number}"], "verbs": ["get"]} for number in range(100)]
    wide = [f"v{number}" for number in range(2000)]
    own += [{"apiGroups": [""], "resources": ["x"], "verbs": [*wide, f"w{number}"]} for number in range(50)]
    await eve.give_here(RIGHTS, *own)
    many = [{"apiGroups": [""], "resources": [f"r{99 - number % 9}"], "verbs": ["get"]} for number in range(14_000)]
    distinct = [{**own[99], "resourceNames": [f"n{number}"]} for number in range(10_000)]
    large = [{"apiGroups": [""], "resources": ["y"], "verbs": wide}]
    for name, rules, expected in (("many", many, 201), ("distinct", distinct, 403), ("large", large, 403)):
        began = time.monotonic()
        code, answer = await eve.ask("POST", f"{HERE}/roles", role("Role", name, *rules))
        assert code == expected, str(answer)[:300]
        assert time.monotonic() - began < 4, name
