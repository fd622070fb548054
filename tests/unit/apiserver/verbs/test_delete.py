"""Delete, as a client sees it."""

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MAPS, MERGE, PODS, config_map, pod


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


async def test_an_object_that_leaves_its_dependents_behind_is_marked_until_they_are_free(api: Api) -> None:
    for name, how in (("a", {"propagationPolicy": "Orphan"}), ("b", {"orphanDependents": True})):
        await api.ask("POST", MAPS, config_map(name))
        _, marked = await api.ask("DELETE", f"{MAPS}/{name}", how)
        assert marked["metadata"]["finalizers"] == ["orphan"]
        assert marked["metadata"]["deletionTimestamp"]


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


async def test_the_older_word_for_orphans_is_understood_but_not_beside_the_newer(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("owner"))
    code, _ = await api.ask("DELETE", f"{MAPS}/owner?orphanDependents=true&propagationPolicy=Background")
    assert code == 422
    await api.ask("DELETE", f"{MAPS}/owner?orphanDependents=true")
    _, owner = await api.ask("GET", f"{MAPS}/owner")
    assert owner["metadata"]["finalizers"] == ["orphan"]
