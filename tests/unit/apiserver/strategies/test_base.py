"""What holds for every kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kit.api_process import Api
from kit.strategies import made, strategy_of
from pykubelet.apiserver.strategies.base import FOREGROUND

NS = "/api/v1/namespaces/default"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
MAPS, RUNNING = strategy_of("", "configmaps"), {"nodeName": "n", "terminationGracePeriodSeconds": 30}


async def test_a_null_in_a_list_or_map_is_the_empty_value(api: Api) -> None:
    _, found = await api.ask("POST", f"{NS}/configmaps", {"metadata": {"name": "c"}, "data": {"a": None, "b": "1"}})
    assert found["data"] == {"a": "", "b": "1"}


async def test_amounts_are_read_and_written_in_one_way(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1500m", "memory": 1024, "pods": "2000m"}}}
    _, found = await api.ask("POST", f"{NS}/resourcequotas", quota)
    assert found["spec"]["hard"] == {"cpu": "1500m", "memory": "1024", "pods": "2"}
    bad = {"metadata": {"name": "r"}, "spec": {"hard": {"cpu": "much"}}}
    code, refused = await api.ask("POST", f"{NS}/resourcequotas", bad)
    assert code == 400
    assert "spec.hard.cpu: has to be an amount" in refused["message"]


# --- what becomes of an object that is to be deleted


def ending(obj: dict[str, Any]) -> tuple[str, int]:
    return obj["metadata"]["deletionTimestamp"], obj["metadata"]["deletionGracePeriodSeconds"]


def test_what_nothing_holds_goes_at_once_and_is_not_written_before() -> None:
    obj = made(MAPS)
    assert MAPS.marked(obj, None, NOW) == (obj, True)


def test_what_a_finalizer_holds_is_marked_once() -> None:
    obj = made(MAPS, metadata={"finalizers": ["example.com/hold"]})
    marked, goes = MAPS.marked(obj, None, NOW)
    assert (ending(marked), goes) == (("2026-01-02T03:04:05Z", 0), False)
    assert MAPS.marked(marked, None, LATER) == (marked, False)
    free = {**marked, "metadata": {**marked["metadata"], "finalizers": []}}
    assert MAPS.marked(free, None, LATER) == (free, True)


def test_what_waits_for_its_dependents_is_held_by_a_finalizer_of_its_own() -> None:
    marked, goes = MAPS.marked(made(MAPS), None, NOW, hold="foregroundDeletion")
    assert (marked["metadata"]["finalizers"], goes) == ([FOREGROUND], False)


def test_the_grace_of_a_pod_only_shrinks() -> None:
    pods = strategy_of("", "pods")
    containers = {"containers": [{"name": "c", "image": "x"}]}
    first, goes = pods.marked(made(pods, metadata={"generation": 1}, spec={**containers, **RUNNING}), None, NOW)
    assert (ending(first), first["metadata"]["generation"], goes) == (("2026-01-02T03:04:35Z", 30), 2, False)
    assert pods.marked(first, 60, LATER) == (first, False)
    shorter, goes = pods.marked(first, 20, LATER)
    assert (ending(shorter), goes) == (("2026-01-02T03:04:25Z", 20), False)
    overdue, goes = pods.marked(first, 5, LATER)
    assert (ending(overdue), goes) == (("2026-01-02T03:04:15Z", 1), False)
    forced, goes = pods.marked(first, 0, LATER)
    assert (ending(forced), goes) == (("2026-01-02T03:04:15Z", 0), True)


@pytest.mark.parametrize("spec", [{}, {"nodeName": "n"}])
def test_a_pod_that_no_node_runs_has_no_grace(spec: dict[str, Any]) -> None:
    pods = strategy_of("", "pods")
    pod = made(pods, spec={"containers": [{"name": "c", "image": "x"}], **spec}, status={"phase": "Failed"})
    assert pods.marked(pod, None, NOW)[1]
