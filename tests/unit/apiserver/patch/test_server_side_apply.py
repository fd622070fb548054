"""Server-side apply: who owns which field, and what becomes of an object when somebody applies."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.objects import clean
from pykubelet.apiserver.patch import typed
from pykubelet.apiserver.patch.apply_conflicts import ApplyConflict
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.field_managers import read
from pykubelet.apiserver.patch.server_side_apply import apply, track_update
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import ANYTHING

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = datetime(2025, 1, 2, 4, 0, 0, tzinfo=UTC)
POD: dict[str, Any] = {"kind": "Pod", "api_version": "v1", "schema": schema_of("v1", "Pod")}


def a_pod(**more: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1.36"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **more.pop("metadata", {})},
        "spec": {"containers": containers, **more},
    }


def applied(
    live: dict[str, Any] | None, wish: dict[str, Any], manager: str = "me", *, force: bool = False, **more: Any
) -> dict[str, Any]:
    given = copy.deepcopy((live, wish))
    result = apply(live, wish, manager=manager, force=force, now=more.pop("now", NOW), **{**POD, **more})
    assert (live, wish) == given, "its input was changed"
    return result


def updated(before: dict[str, Any] | None, after: dict[str, Any], manager: str = "u", **more: Any) -> dict[str, Any]:
    given = copy.deepcopy((before, after))
    result = track_update(before, after, manager=manager, now=more.pop("now", NOW), **{**POD, **more})
    assert (before, after) == given, "its input was changed"
    return result


def owners(value: dict[str, Any]) -> dict[str, Any]:
    entries = value["metadata"].get("managedFields", [])
    return {f"{each['manager']} {each['operation']}".strip(): each["fieldsV1"] for each in entries}


def stored(value: dict[str, Any]) -> dict[str, Any]:
    """As a server stores it: with a uid."""
    return {**value, "metadata": {**value["metadata"], "uid": "1"}}


# --- applying


def test_the_first_apply_creates_the_object_and_owns_what_it_says() -> None:
    result = applied(None, a_pod(metadata={"labels": {"a": "1"}}))
    assert result["spec"] == {"containers": [{"name": "c", "image": "busybox:1.36"}]}
    assert result["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2025-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}}},
            },
        }
    ]


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    first = stored(applied(None, a_pod()))
    assert applied(first, a_pod(), now=LATER) == first


def test_what_is_no_longer_applied_goes_away() -> None:
    first = stored(applied(None, a_pod(metadata={"labels": {"a": "1"}}, hostname="h")))
    result = applied(first, a_pod())
    assert "labels" not in result["metadata"]
    assert "hostname" not in result["spec"]


def test_a_container_that_is_no_longer_applied_goes_away_and_the_others_stay() -> None:
    wish = a_pod()
    wish["spec"]["containers"].append({"name": "d", "image": "d"})
    result = applied(stored(applied(None, wish)), a_pod())
    assert [each["name"] for each in result["spec"]["containers"]] == ["c"]


def test_what_others_own_too_stays_when_one_gives_it_up() -> None:
    wish = a_pod(metadata={"labels": {"a": "1"}})
    both = stored(applied(stored(applied(None, wish)), wish, "you"))
    result = applied(both, a_pod())
    assert result["metadata"]["labels"] == {"a": "1"}
    assert "f:metadata" not in owners(result)["me Apply"]
    assert owners(result)["you Apply"]["f:metadata"] == {"f:labels": {"f:a": {}}}


def test_fields_that_nobody_applied_are_left_alone() -> None:
    live = stored(applied(None, a_pod()))
    live["spec"]["dnsPolicy"] = "ClusterFirst"  # a default: nobody owns it
    live["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    live["future"] = {"unknown": [1]}
    result = applied(live, a_pod(hostname="h"))
    assert result["spec"]["dnsPolicy"] == "ClusterFirst"
    assert result["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert result["future"] == {"unknown": [1]}


def test_another_value_for_a_field_of_somebody_else_is_a_conflict() -> None:
    live = stored(applied(None, a_pod(metadata={"labels": {"a": "1"}})))
    wish = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "2"}}}
    with pytest.raises(ApplyConflict) as caught:
        applied(live, wish, "you")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "me": .metadata.labels.a'
    assert [(cause.field, cause.message) for cause in caught.value.causes] == [
        (".metadata.labels.a", 'conflict with "me"')
    ]


def test_several_conflicts_are_told_manager_by_manager() -> None:
    live = stored(updated(None, a_pod(hostname="h", subdomain="s"), "kubectl"))
    with pytest.raises(ApplyConflict) as caught:
        applied(live, a_pod(hostname="i", subdomain="t"))
    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "kubectl" using v1:\n- .spec.hostname\n- .spec.subdomain'
    )


def test_a_conflict_names_the_item_of_a_list_and_the_part_of_the_object() -> None:
    live = stored(updated(None, a_pod()))
    live = stored(updated(live, {**live, "status": {"phase": "Running"}}, "kubelet", subresource="status"))
    wish = a_pod()
    wish["spec"]["containers"][0]["image"] = "other"
    with pytest.raises(ApplyConflict, match=r'conflict with "u" using v1: \.spec\.containers\[name="c"\]\.image$'):
        applied(live, wish)
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}}
    with pytest.raises(ApplyConflict, match=r'"kubelet" with subresource "status" using v1: \.status\.phase'):
        applied(live, status, subresource="status")


def test_force_takes_the_field_away_from_the_others() -> None:
    live = stored(applied(None, a_pod(metadata={"labels": {"a": "1"}})))
    wish = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "2"}}}
    result = applied(live, wish, "you", force=True)
    assert result["metadata"]["labels"] == {"a": "2"}
    assert "f:metadata" not in owners(result)["me Apply"]
    assert owners(result)["you Apply"] == {"f:metadata": {"f:labels": {"f:a": {}}}}
    again = applied(stored(result), a_pod())
    assert again["metadata"]["labels"] == {"a": "2"}, "what was taken is no longer mine to remove"


def test_an_object_without_owners_belongs_to_its_past_before_the_first_apply() -> None:
    result = applied(stored(a_pod(hostname="h")), a_pod(subdomain="s"))
    assert set(owners(result)) == {"me Apply", "before-first-apply Update"}
    assert result["spec"]["hostname"] == "h"


def test_finalizers_are_a_set_and_ports_are_told_apart_by_number_and_protocol() -> None:
    wish = a_pod(metadata={"finalizers": ["example.com/a"]})
    wish["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    result = applied(None, wish)
    mine = owners(result)["me Apply"]
    assert mine["f:metadata"] == {"f:finalizers": {'v:"example.com/a"': {}}}
    ports = mine["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert set(ports) == {'k:{"containerPort":80,"protocol":"TCP"}', 'k:{"containerPort":80,"protocol":"UDP"}'}
    second = a_pod(metadata={"finalizers": ["example.com/b"]})
    assert applied(stored(result), second, "you")["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]


def test_lists_and_objects_that_are_atomic_are_owned_as_a_whole() -> None:
    wish = a_pod(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "k"}])
    mine = owners(applied(None, wish))["me Apply"]["f:spec"]
    assert mine["f:nodeSelector"] == {}
    assert mine["f:tolerations"] == {}
    other = a_pod(nodeSelector={"zone": "a"})
    with pytest.raises(ApplyConflict, match=r"\.spec\.nodeSelector"):
        applied(stored(applied(None, wish)), other, "you")
    result = applied(stored(applied(None, wish)), other, "you", force=True)
    assert result["spec"]["nodeSelector"] == {"zone": "a"}


def test_new_containers_come_where_the_one_that_applies_puts_them() -> None:
    live = stored(applied(None, a_pod()))
    live["spec"]["containers"].append({"name": "injected", "image": "i"})
    wish = a_pod()
    wish["spec"]["containers"].insert(0, {"name": "first", "image": "f"})
    names = [each["name"] for each in applied(live, wish)["spec"]["containers"]]
    assert names == ["first", "c", "injected"]


def test_a_kind_without_a_type_merges_maps_and_replaces_lists() -> None:
    kind: dict[str, Any] = {"kind": "Widget", "api_version": "example.com/v1", "schema": ANYTHING}
    base = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    live = stored(applied(None, {**base, "spec": {"a": 1, "list": [{"name": "x"}]}}, **kind))
    assert owners(live)["me Apply"] == {"f:spec": {".": {}, "f:a": {}, "f:list": {}}}
    result = applied(live, {**base, "spec": {"b": {"c": True}}}, "you", **kind)
    assert result["spec"] == {"a": 1, "list": [{"name": "x"}], "b": {"c": True}}
    gone = applied(stored(result), base, **kind)
    assert gone["spec"] == {"b": {"c": True}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "v2"}, "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1"),
        ({"kind": "Node"}, "the kind of what is applied is 'Node', but must be 'Pod'"),
        ({"metadata": {"name": "p", "managedFields": []}}, "metadata.managedFields must be nil"),
        ({"bogus": 1}, r"\(/p; v1, Kind=Pod\): .bogus: field not declared in schema"),
        ({"spec": {"containers": {}}}, ".spec.containers: expected list, got a map"),
        ({"spec": {"hostname": 1}}, ".spec.hostname: expected string, got a number"),
        ({"spec": {"containers": [{"image": "x"}]}}, "omits all key fields"),
        (
            {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}},
            r'.spec.containers: duplicate entries for key \[name="c"\]',
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PatchRefused, match=message):
        applied(None, {**a_pod(), **change})


def test_kubectl_takes_over_what_it_applied_from_the_client_side() -> None:
    note = "kubectl.kubernetes.io/last-applied-configuration"
    last = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"hostname":"h"}}'
    live = stored(
        updated(None, a_pod(metadata={"annotations": {note: last}}, hostname="h"), "kubectl-client-side-apply")
    )
    result = applied(live, a_pod(hostname="i"), "kubectl")
    assert result["spec"]["hostname"] == "i"
    assert '"hostname":"i"' in result["metadata"]["annotations"][note]
    live["spec"]["hostname"] = "changed since"
    with pytest.raises(ApplyConflict):
        applied(live, a_pod(hostname="i"), "kubectl")


# --- creating, updating and patching


def test_one_that_creates_owns_all_fields_of_the_object_but_not_its_identity() -> None:
    result = updated(None, stored(a_pod(metadata={"labels": {"a": "1"}}, affinity={"podAffinity": {}})))
    assert owners(result)["u Update"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:affinity": {".": {}, "f:podAffinity": {}},
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
        },
    }


def test_one_that_changes_a_field_takes_it_from_the_one_that_had_it() -> None:
    before = stored(applied(None, a_pod(metadata={"labels": {"a": "1", "b": "1"}})))
    after = copy.deepcopy(before)
    after["metadata"]["labels"]["a"] = "2"
    result = updated(before, after, "kubectl-edit", now=LATER)
    assert owners(result)["me Apply"]["f:metadata"] == {"f:labels": {"f:b": {}}}
    assert owners(result)["kubectl-edit Update"] == {"f:metadata": {"f:labels": {"f:a": {}}}}
    assert result["metadata"]["managedFields"][1]["time"] == "2025-01-02T04:00:00Z"


def test_a_field_that_is_removed_belongs_to_nobody() -> None:
    before = stored(updated(None, a_pod(hostname="h")))
    after = copy.deepcopy(before)
    del after["spec"]["hostname"]
    assert "f:hostname" not in owners(updated(before, after, "other"))["u Update"]["f:spec"]


def test_an_update_that_changes_nothing_leaves_the_record_as_it_was() -> None:
    before = stored(updated(None, a_pod()))
    assert updated(before, copy.deepcopy(before), now=LATER) == before


def test_the_status_has_managers_of_its_own_and_the_spec_cannot_be_owned_by_way_of_it() -> None:
    before = stored(updated(None, a_pod()))
    after = copy.deepcopy(before)
    after["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    after["spec"]["hostname"] = "ignored"
    result = updated(before, after, "kubelet", subresource="status")
    entry = next(each for each in result["metadata"]["managedFields"] if each["manager"] == "kubelet")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {
            "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}},
            "f:phase": {},
        }
    }


def test_by_way_of_a_resize_only_resources_can_be_owned() -> None:
    before = stored(updated(None, a_pod()))
    after = copy.deepcopy(before)
    after["spec"]["containers"][0] |= {"resources": {"limits": {"cpu": "1"}}, "workingDir": "/"}
    result = updated(before, after, "scaler", subresource="resize")
    assert owners(result)["scaler Update"] == {
        "f:spec": {"f:containers": {'k:{"name":"c"}': {"f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}}}}}
    }


def test_an_empty_record_in_a_request_clears_it_and_a_missing_one_keeps_it() -> None:
    before = stored(updated(None, a_pod()))
    bare = copy.deepcopy(before)
    del bare["metadata"]["managedFields"]
    assert updated(before, bare) == before
    cleared = {**bare, "metadata": {**bare["metadata"], "managedFields": []}}
    assert "managedFields" not in updated(before, cleared)["metadata"]


def test_of_many_that_update_the_oldest_are_thrown_together() -> None:
    value = stored(updated(None, a_pod()))
    for minute in range(12):
        after = copy.deepcopy(value)
        after["metadata"].setdefault("labels", {})[f"l{minute}"] = "1"
        value = updated(value, after, f"m{minute}", now=datetime(2025, 1, 3, 0, minute, tzinfo=UTC))
    names = [each["manager"] for each in value["metadata"]["managedFields"]]
    assert len(names) == 10
    assert names[0] == "ancient-changes"
    assert "f:l1" in owners(value)["ancient-changes Update"]["f:metadata"]["f:labels"]


def test_a_record_that_makes_no_sense_is_replaced_rather_than_trusted() -> None:
    value = stored(a_pod())
    value["metadata"]["managedFields"] = [{"operation": "Steal"}]
    assert "managedFields" not in updated(stored(a_pod()), value)["metadata"]
    with pytest.raises(PatchRefused, match="failed to decode managed fields: operation must be `Apply` or `Update`"):
        applied(value, a_pod())


# --- whatever is done in whatever order

_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1)
_ENV: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from("XYZ"), "value": st.sampled_from("12")}
)
_CONTAINER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from("abcd")},
    optional={
        "image": st.sampled_from("ij"),
        "env": st.lists(_ENV, min_size=1, max_size=3, unique_by=lambda each: each["name"]),
        "args": st.lists(st.sampled_from("pq"), min_size=1, max_size=2),
    },
)
_METADATA = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={"labels": _LABELS, "finalizers": st.lists(st.sampled_from("fgh"), unique=True, min_size=1)},
)
_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(_CONTAINER, min_size=1, max_size=3, unique_by=lambda each: each["name"])},
    optional={"nodeSelector": _LABELS, "hostname": st.sampled_from("xy")},
)
_PODS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": _METADATA, "spec": _SPEC}
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["me", "you", "update"]), _PODS), min_size=1, max_size=6))
def test_what_is_applied_is_there_and_owned_fields_exist_whatever_came_before(steps: list[Any]) -> None:
    schema = schema_of("v1", "Pod")
    live: dict[str, Any] | None = None
    for who, pod in steps:
        if who == "update":
            live = updated(live, stored(pod))
        else:
            live = clean(stored(applied(live, pod, who, force=True)), schema)
            assert clean(applied(live, pod, who, now=LATER), schema) == live
            change = typed.compared(pod, live, schema)
            assert not change.modified
            assert not change.removed
        assert live is not None
        there = typed.with_named_fields(typed.field_set(live, schema), schema)
        for owned in read(live["metadata"]["managedFields"]).values():
            gone = {path for path in owned.fields - there if path[-1] not in ("f:labels", "f:env", "f:finalizers")}
            assert not gone, "only a map or list that others emptied may still have an owner"
