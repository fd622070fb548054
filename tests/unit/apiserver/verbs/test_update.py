"""Update, as a client sees it."""

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MAPS, MERGE, PODS, config_map, pod


async def test_the_slower_of_two_writers_is_told(api: Api) -> None:
    _, made = await api.ask("POST", MAPS, config_map("a"))
    assert (await api.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "1"}}))[0] == 200
    code, refused = await api.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "2"}})
    assert (code, refused["reason"]) == (409, "Conflict")


async def test_a_change_that_changes_nothing_is_not_written(api: Api) -> None:
    _, made = await api.ask("POST", PODS, pod("a"))
    _, same = await api.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": None}}, kind=MERGE)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    _, again = await api.ask("PUT", f"{PODS}/a", made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_lease_is_made_by_an_update_and_needs_a_version_afterwards(api: Api) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    lease = {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 5}}
    assert (await api.ask("PUT", path, lease))[0] == 201
    code, refused = await api.ask("PUT", path, lease)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
