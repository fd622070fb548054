"""The table of what is served, and how it changes at runtime."""

import asyncio
import base64
from typing import Any

import pytest

from kit.api_process import Api
from kit.cluster import cluster
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.namespaces import NamespaceController
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.descriptions import TYPES
from pykubelet.apiserver.schema.kinds import Resources, built_in
from pykubelet.apiserver.schema.resources import Resource, Subresource, storage_hash
from pykubelet.apiserver.schema.schema import ANYTHING, Field, Record, Scalar
from pykubelet.apiserver.strategies.base import Strategy

CHANGING = ("get", "patch", "update")
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def widget(version: str = "v1", **more: Any) -> Resource:
    spec = Record(f"com.example.{version}.Widget.spec", {"size": Field(Scalar("integer", "int64"))})
    fields = {"apiVersion": Field(Scalar("string")), "kind": Field(Scalar("string")), "metadata": Field(ANYTHING)}
    schema = Record(f"com.example.{version}.Widget", {**fields, "spec": Field(spec), "status": Field(ANYTHING)})
    return Resource(
        group="example.com",
        version=version,
        kind="Widget",
        plural="widgets",
        singular="widget",
        short_names=("wd",),
        subresources=(Subresource("status", "Widget", CHANGING),),
        is_custom=True,
        counts_generations=True,
        given_schema=schema,
        openapi={"properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}},
        storage_hash=storage_hash("example.com", "v1", "Widget"),
        **more,
    )


class Converted(Strategy):
    """v2 calls the size `amount`."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self.converts = resource.version == "v2"

    def from_storage(self, obj: Object) -> Object:
        return {**obj, "apiVersion": self.resource.api_version} if self.converts else obj

    def to_storage(self, obj: Object) -> Object:
        return {**obj, "apiVersion": "example.com/v1"}


def test_all_that_a_default_server_of_this_version_serves_is_there() -> None:
    groups = {each.group for each in built_in()}
    assert len(groups) == 22
    assert {"apps", "batch", "policy", "resource.k8s.io", "flowcontrol.apiserver.k8s.io"} < groups
    versions = {(each.group, each.version) for each in built_in() if each.group == "autoscaling"}
    assert versions == {("autoscaling", "v1"), ("autoscaling", "v2")}


def test_objects_are_where_other_servers_look_for_them() -> None:
    resources = Resources()
    assert resources.of("", "nodes").key("", "n") == "/registry/minions/n"
    assert resources.of("", "replicationcontrollers").key("a", "b") == "/registry/controllers/a/b"
    assert resources.of("networking.k8s.io", "ingresses").key("a", "b") == "/registry/ingress/a/b"
    definitions = resources.of("apiextensions.k8s.io", "customresourcedefinitions")
    assert definitions.key("", "x.y") == "/registry/apiextensions.k8s.io/customresourcedefinitions/x.y"
    assert widget().key("a", "b") == "/registry/example.com/widgets/a/b"
    for each in resources:
        if each.is_stored:
            found = resources.at(each.key("ns", "name"))
            assert found is not None
            assert found.prefix == each.prefix


def test_the_hash_of_the_stored_version_is_the_one_that_clients_know() -> None:
    resources = Resources()
    for group, plural in (("", "pods"), ("apps", "deployments"), ("autoscaling", "horizontalpodautoscalers")):
        each = resources.of(group, plural)
        assert each.storage_hash == storage_hash(each.group, each.version, each.kind)
    assert len(base64.b64decode(storage_hash("example.com", "v1", "Widget"))) == 8


def test_kubectl_explain_says_of_every_kind_what_it_is_for() -> None:
    assert [each.kind for each in built_in() if each.kind not in TYPES] == []


def test_what_is_built_in_is_not_replaced() -> None:
    resources = Resources()
    with pytest.raises(ValueError, match="built in"):
        resources.add([Resource(plural="pods", kind="Pod", is_custom=True)])
    assert resources.of("", "pods").type is not None


async def test_a_resource_is_served_from_when_it_is_defined_until_it_is_withdrawn(api: Api) -> None:
    assert (await api.ask("GET", WIDGETS))[0] == 404
    before = (await api.ask("GET", "/openapi/v3"))[1]["paths"]
    api.backend.serve([widget()])
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    body = {**head, "metadata": {"name": "w"}, "spec": {"size": 3, "bogus": 1}}
    code, made = await api.ask("POST", WIDGETS, body)
    assert (code, made["spec"], made["metadata"]["generation"]) == (201, {"size": 3}, 1)
    code, refused = await api.ask("POST", WIDGETS, {**head, "metadata": {"name": "x"}, "spec": {"size": "big"}})
    assert (code, "spec.size" in refused["message"]) == (400, True)
    _, changed = await api.ask(
        "PATCH", f"{WIDGETS}/w/status", {"status": {"ok": True}}, kind="application/merge-patch+json"
    )
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ok": True}, 1)
    code, _ = await api.ask("PATCH", f"{WIDGETS}/w", {}, kind="application/strategic-merge-patch+json")
    assert code == 415
    told = (await api.ask("GET", "/apis/example.com/v1"))[1]["resources"]
    assert [each["name"] for each in told] == ["widgets", "widgets/status"]
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = (await api.ask("GET", "/apis", Accept=form))[1]["items"]
    (entry,) = next(each for each in groups if each["metadata"]["name"] == "example.com")["versions"][0]["resources"]
    home = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert (entry["responseKind"], entry["subresources"][0]["responseKind"]) == (home, home)
    after = (await api.ask("GET", "/openapi/v3"))[1]["paths"]
    assert set(after) - set(before) == {"apis/example.com/v1"}
    document = (await api.ask("GET", "/openapi/v3/apis/example.com/v1"))[1]
    assert "spec" in document["components"]["schemas"]["com.example.v1.Widget"]["properties"]

    api.backend.serve([widget(categories=("all",))])
    told = (await api.ask("GET", "/apis/example.com/v1"))[1]["resources"]
    assert told[0]["categories"] == ["all"]
    assert (await api.ask("GET", f"{WIDGETS}/w"))[0] == 200

    api.backend.withdraw("example.com", "widgets")
    assert (await api.ask("GET", WIDGETS))[0] == 404
    assert (await api.ask("GET", "/apis/example.com"))[0] == 404
    assert (await api.ask("GET", "/openapi/v3"))[1]["paths"] == before


async def test_versions_share_one_place_in_the_store(api: Api) -> None:
    api.backend.serve([widget("v2", stored_in="v1"), widget("v1")], Converted)
    second = WIDGETS.replace("v1", "v2")
    head = {"apiVersion": "example.com/v2", "kind": "Widget"}
    code, made = await api.ask("POST", second, {**head, "metadata": {"name": "w"}, "spec": {"size": 3}})
    assert (code, made["apiVersion"]) == (201, "example.com/v2")
    _, first = await api.ask("GET", f"{WIDGETS}/w")
    assert (first["apiVersion"], first["spec"]) == ("example.com/v1", {"size": 3})
    group = (await api.ask("GET", "/apis/example.com"))[1]
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert api.backend.resources.of("example.com", "widgets").version == "v1"
    assert (await api.ask("DELETE", f"{second}/w"))[0] == 200
    assert (await api.ask("GET", WIDGETS))[1]["items"] == []


async def test_controllers_see_what_was_defined_after_they_were_started() -> None:
    async with cluster() as c:
        collector, namespaces = GarbageCollector(c), NamespaceController(c)
        c.backend.serve([widget()])
        gone = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "former"}
        await c.add(
            "example.com", "widgets", {"metadata": {"name": "w", "namespace": "default", "ownerReferences": [gone]}}
        )
        await c.add("", "namespaces", {"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}})
        await c.add("example.com", "widgets", {"metadata": {"name": "x", "namespace": "team"}})
        await collector.sync()
        assert [each["metadata"]["name"] for each in await c.all(("example.com", "widgets"))] == ["x"]
        await c.writer.delete(c.resource(("", "namespaces")), "", "team")
        await namespaces.sync()
        assert await c.all(("example.com", "widgets")) == []


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_watch_ends_with_what_it_is_about(api: Api, is_replaced: bool) -> None:
    api.backend.serve([widget()])
    made = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert (await api.ask("POST", WIDGETS, made))[0] == 201
    async with api.session.get(f"{api.url}{WIDGETS}?watch=true&timeoutSeconds=30") as answer, asyncio.timeout(10):
        assert b"ADDED" in await answer.content.readline()
        api.backend.serve([widget()])
        await api.ask("PATCH", f"{WIDGETS}/w", {"spec": {"size": 5}}, kind="application/merge-patch+json")
        assert b"MODIFIED" in await answer.content.readline(), "the same was served again"
        if is_replaced:
            api.backend.serve([widget(categories=("all",))])
        else:
            api.backend.withdraw("example.com", "widgets")
        assert await answer.read() == b""
