"""What holds for every kind."""

from kit.api_process import Api

NS = "/api/v1/namespaces/default"


async def test_a_null_in_a_list_or_map_is_the_empty_value(api: Api) -> None:
    _, made = await api.ask("POST", f"{NS}/configmaps", {"metadata": {"name": "c"}, "data": {"a": None, "b": "1"}})
    assert made["data"] == {"a": "", "b": "1"}


async def test_amounts_are_read_and_written_in_one_way(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1500m", "memory": 1024, "pods": "2000m"}}}
    _, made = await api.ask("POST", f"{NS}/resourcequotas", quota)
    assert made["spec"]["hard"] == {"cpu": "1500m", "memory": "1024", "pods": "2"}
    bad = {"metadata": {"name": "r"}, "spec": {"hard": {"cpu": "much"}}}
    code, refused = await api.ask("POST", f"{NS}/resourcequotas", bad)
    assert code == 400
    assert "spec.hard.cpu: has to be an amount" in refused["message"]
