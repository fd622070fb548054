"""Create, as a client sees it."""

import pytest

from kit.api_process import Api, serving_api
from pykubelet.apiserver.settings import ApiSettings
from unit.apiserver.verbs.bodies import MAPS, config_map


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
    async with api.session.post(f"{api.url}{MAPS}", json=given) as answer:  # which is there already
        assert answer.status == 409
        assert answer.headers.getall("Warning") == ['299 - "unknown field \\"bogus\\""']


async def test_a_name_that_is_given_twice_in_one_map_is_warned_of(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    async with api.session.post(f"{api.url}{MAPS}", data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 201
        assert 'duplicate field \\"x\\"' in answer.headers["Warning"]


async def test_what_has_a_version_is_created_by_a_dry_run_alone(api: Api) -> None:
    """As upstream: `kubectl get -o yaml | kubectl create -f -` fails."""
    body = config_map("copy")
    body["metadata"]["resourceVersion"] = "7"
    assert (await api.ask("POST", f"{MAPS}?dryRun=All", body))[0] == 201
    assert (await api.ask("POST", MAPS, body))[0] == 500


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
