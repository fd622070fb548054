"""What can be done with objects, as a client sees it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kit.api_process import Api, serving_api
from pykubelet.apiserver.settings import ApiSettings

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def api() -> AsyncGenerator[Api, None]:
    async with serving_api() as running:
        yield running


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1.36"}]
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"automountServiceAccountToken": False, "containers": containers, **spec},
    }


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more.pop("metadata", {})}, **more}


# --- create


async def test_a_name_is_made_of_the_prefix_that_was_given(api: Api) -> None:
    given = {**config_map(""), "metadata": {"generateName": "x-"}}
    (_, one), (_, other) = [await api.ask("POST", MAPS, given) for _ in range(2)]
    assert one["metadata"]["name"].startswith("x-")
    assert one["metadata"]["name"] != other["metadata"]["name"]


async def test_what_is_created_gets_its_identity_from_the_server(api: Api) -> None:
    given = config_map("a", metadata={"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9})
    code, made = await api.ask("POST", MAPS, given)
    assert code == 201
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert "generation" not in made["metadata"]


async def test_unknown_fields_are_refused_warned_of_or_let_pass_as_the_client_wishes(api: Api) -> None:
    given = {**config_map("a"), "bogus": 1}
    code, refused = await api.ask("POST", f"{MAPS}?fieldValidation=Strict", given)
    assert code == 400
    assert 'unknown field "bogus"' in refused["message"]
    async with api.session.post(f"{api.url}{MAPS}?fieldValidation=Warn", json=given) as answer:
        assert answer.status == 201
        assert answer.headers.getall("Warning") == ['299 - "unknown field \\"bogus\\""']
        assert "bogus" not in await answer.json()
    async with api.session.post(
        f"{api.url}{MAPS}?fieldValidation=Ignore", json={**given, "metadata": {"name": "b"}}
    ) as a:
        assert a.status == 201
        assert "Warning" not in a.headers


async def test_a_name_that_is_given_twice_in_one_map_is_warned_of(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    async with api.session.post(f"{api.url}{MAPS}", data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 201
        assert 'duplicate field \\"x\\"' in answer.headers["Warning"]


async def test_a_dry_run_leaves_nothing_behind(api: Api) -> None:
    code, made = await api.ask("POST", f"{MAPS}?dryRun=All", config_map("a"))
    assert (code, made["metadata"].get("resourceVersion")) == (201, None)
    assert (await api.ask("GET", f"{MAPS}/a"))[0] == 404


async def test_nothing_is_made_in_a_namespace_that_is_about_to_go(api: Api) -> None:
    await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    await api.ask("DELETE", "/api/v1/namespaces/going")
    code, refused = await api.ask("POST", "/api/v1/namespaces/going/configmaps", config_map("a"))
    assert code == 403
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_body_in_yaml_is_read_as_well(api: Api) -> None:
    code, made = await api.ask("POST", MAPS, b"metadata: {name: a}\ndata: {x: hello}\n", kind="application/yaml")
    assert (code, made["data"]) == (201, {"x": "hello"})


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"{}", "text/plain", 415),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"metadata":[]}', "application/json", 400),
        (b'{"metadata":{"name":5}}', "application/json", 400),
        (b'{"metadata":{"name":"a","labels":{"x":1}}}', "application/json", 400),
        (b'{"metadata":{"name":"a"},"data":["x"]}', "application/json", 400),
        (b"[" * 5000, "application/json", 400),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "application/json", 400),
        (b"k8s\x00\xff\xff", "application/vnd.kubernetes.protobuf", 400),
        (b"hello", "application/vnd.kubernetes.protobuf", 400),
    ],
)
async def test_bodies_that_are_no_objects_are_refused_with_a_sentence(
    api: Api, body: bytes, kind: str, code: int
) -> None:
    found, refused = await api.ask("POST", MAPS, body, kind=kind)
    assert (found, refused["kind"]) == (code, "Status")
    assert refused["message"]


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with serving_api(settings=ApiSettings(most_body_bytes=1000)) as api:
        code, refused = await api.ask("POST", MAPS, config_map("a", data={"x": "y" * 2000}))
        assert (code, refused["reason"]) == (413, "RequestEntityTooLarge")


# --- list


async def test_pages_are_of_one_moment(api: Api) -> None:
    for name in "abcde":
        await api.ask("POST", MAPS, config_map(name))
    _, first = await api.ask("GET", f"{MAPS}?limit=2")
    assert [each["metadata"]["name"] for each in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ask("DELETE", f"{MAPS}/d")
    _, rest = await api.ask("GET", f"{MAPS}?limit=9&continue={first['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c", "d", "e"]
    assert "continue" not in rest["metadata"]


async def test_pages_are_full_of_what_was_selected(api: Api) -> None:
    for name, label in zip("abcdef", "xyxyxy", strict=True):
        await api.ask("POST", MAPS, config_map(name, metadata={"labels": {"l": label}}))
    _, first = await api.ask("GET", f"{MAPS}?limit=2&labelSelector=l%3Dy")
    _, rest = await api.ask("GET", f"{MAPS}?limit=2&labelSelector=l%3Dy&continue={first['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in (*first["items"], *rest["items"])] == ["b", "d", "f"]
    assert "remainingItemCount" not in first["metadata"]


async def test_a_list_of_the_past_is_what_was_there_then(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    _, now = await api.ask("GET", MAPS)
    await api.ask("POST", MAPS, config_map("b"))
    version = now["metadata"]["resourceVersion"]
    _, then = await api.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert [each["metadata"]["name"] for each in then["items"]] == ["a"]
    _, newer = await api.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert [each["metadata"]["name"] for each in newer["items"]] == ["a", "b"]


@pytest.mark.parametrize(
    "query", ["labelSelector=-a", "labelSelector=a%3D%3D%3Db", "fieldSelector=x%3D1", "continue=x"]
)
async def test_selectors_that_make_no_sense_are_refused(api: Api, query: str) -> None:
    assert (await api.ask("GET", f"{MAPS}?{query}"))[0] == 400


async def test_lists_come_as_metadata_alone_if_that_is_wanted(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a", data={"x": "y"}))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, found = await api.ask("GET", MAPS, Accept=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_an_answer_can_be_had_as_yaml(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    _, text = await api.ask("GET", f"{MAPS}/a", Accept="application/yaml")
    assert "kind: ConfigMap" in text


# --- update and patch


async def test_the_slower_of_two_writers_is_told(api: Api) -> None:
    _, made = await api.ask("POST", MAPS, config_map("a"))
    assert (await api.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "1"}}))[0] == 200
    code, refused = await api.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "2"}})
    assert (code, refused["reason"]) == (409, "Conflict")


async def test_patches_at_the_same_time_all_count(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    patches = [api.ask("PATCH", f"{MAPS}/a", {"data": {f"k{n}": "v"}}, kind=MERGE) for n in range(20)]
    assert {code for code, _ in await asyncio.gather(*patches)} == {200}
    _, found = await api.ask("GET", f"{MAPS}/a")
    assert len(found["data"]) == 20


async def test_a_change_that_changes_nothing_is_not_written(api: Api) -> None:
    _, made = await api.ask("POST", PODS, pod("a"))
    _, same = await api.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": None}}, kind=MERGE)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    _, again = await api.ask("PUT", f"{PODS}/a", made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_patch_may_not_rename_an_object(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    code, refused = await api.ask("PATCH", f"{MAPS}/a", {"metadata": {"name": "b"}}, kind=MERGE)
    assert code == 422
    assert {each["field"] for each in refused["details"]["causes"]} == {"metadata.name"}


async def test_a_patch_that_leaves_nonsense_is_refused(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    code, refused = await api.ask("PATCH", f"{MAPS}/a", {"data": "x"}, kind=MERGE)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "patch")


async def test_a_lease_is_made_by_an_update_and_needs_a_version_afterwards(api: Api) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    lease = {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 5}}
    assert (await api.ask("PUT", path, lease))[0] == 201
    code, refused = await api.ask("PUT", path, lease)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


async def test_whoever_applies_owns_what_it_says(api: Api) -> None:
    first = {**config_map("a"), "data": {"x": "1"}}
    code, made = await api.ask("PATCH", f"{MAPS}/a?fieldManager=me", first, kind=APPLY)
    assert code == 201
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["me"]
    code, refused = await api.ask(
        "PATCH", f"{MAPS}/a?fieldManager=you", {**config_map("a"), "data": {"x": "2"}}, kind=APPLY
    )
    assert (code, refused["details"]["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    _, emptied = await api.ask("PATCH", f"{MAPS}/a?fieldManager=me", config_map("a"), kind=APPLY)
    assert "data" not in emptied


# --- delete


async def test_a_pod_on_a_node_gets_its_time_and_is_ended_by_the_node(api: Api) -> None:
    await api.ask("POST", PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=7))
    _, leaving = await api.ask("DELETE", f"{PODS}/a")
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 7
    assert leaving["metadata"]["generation"] == 2
    assert (await api.ask("GET", f"{PODS}/a"))[0] == 200
    wrong = {"gracePeriodSeconds": 0, "preconditions": {"uid": "other"}}
    assert (await api.ask("DELETE", f"{PODS}/a", wrong))[0] == 409
    right = {"gracePeriodSeconds": 0, "preconditions": {"uid": leaving["metadata"]["uid"]}}
    assert (await api.ask("DELETE", f"{PODS}/a", right))[0] == 200
    assert (await api.ask("GET", f"{PODS}/a"))[0] == 404


async def test_an_object_that_waits_for_its_dependents_is_marked(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    _, marked = await api.ask("DELETE", f"{MAPS}/a?propagationPolicy=Foreground")
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert marked["metadata"]["deletionTimestamp"]


async def test_what_is_orphaned_no_longer_names_its_owner(api: Api) -> None:
    _, owner = await api.ask("POST", MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await api.ask("POST", MAPS, config_map("child", metadata={"ownerReferences": [reference]}))
    await api.ask("DELETE", f"{MAPS}/owner?propagationPolicy=Orphan")
    _, child = await api.ask("GET", f"{MAPS}/child")
    assert "ownerReferences" not in child["metadata"]


async def test_a_finalizer_holds_until_it_is_taken_away(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a", metadata={"finalizers": ["example.com/x"]}))
    await api.ask("DELETE", f"{MAPS}/a")
    more = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
    assert (await api.ask("PATCH", f"{MAPS}/a", more, kind=MERGE))[0] == 422
    assert (await api.ask("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, kind=MERGE))[0] == 200
    assert (await api.ask("GET", f"{MAPS}/a"))[0] == 404


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name in "ab":
        await api.ask("POST", MAPS, config_map(name, metadata={"labels": {"n": name}}))
    code, gone = await api.ask("DELETE", f"{MAPS}?labelSelector=n%3Da")
    assert (code, [each["metadata"]["name"] for each in gone["items"]]) == (200, ["a"])
    _, left = await api.ask("GET", MAPS)
    assert [each["metadata"]["name"] for each in left["items"]] == ["b"]


async def test_the_namespaces_of_the_cluster_itself_may_not_be_deleted(api: Api) -> None:
    assert (await api.ask("DELETE", "/api/v1/namespaces/kube-system"))[0] == 403


# --- paths


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/nonsense", 404),
        ("GET", "/apis/none/v1/things", 404),
        ("POST", "/api/v1/pods", 405),
        ("PATCH", PODS, 405),
        ("OPTIONS", PODS, 405),
        ("POST", "/version", 405),
    ],
)
async def test_paths_and_methods_that_mean_nothing(api: Api, method: str, path: str, code: int) -> None:
    found, refused = await api.ask(method, path)
    assert (found, refused["kind"]) == (code, "Status")


async def test_health_is_told_part_by_part(api: Api) -> None:
    assert await api.ask("GET", "/livez") == (200, "ok")
    _, text = await api.ask("GET", "/readyz?verbose")
    assert "[+]etcd ok" in text
    assert text.endswith("readyz check passed\n")
    await api.backend.store.close()
    code, text = await api.ask("GET", "/readyz")
    assert code == 500
    assert "[-]etcd failed" in text
