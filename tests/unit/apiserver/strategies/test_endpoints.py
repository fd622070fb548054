"""Endpoints."""

from typing import Any

from kit.api_process import Api

NS = "/api/v1/namespaces/default"


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


async def test_endpoints_have_addresses_and_ports_that_can_be(api: Api) -> None:
    subset = {"addresses": [{"ip": "10.0.0.1"}, {}], "notReadyAddresses": [{"ip": "x"}], "ports": [{"port": 70000}]}
    _, refused = await api.ask("POST", f"{NS}/endpoints", {"metadata": {"name": "e"}, "subsets": [subset]})
    assert [field for _, field in causes(refused)] == [
        "subsets[0].addresses[1].ip",
        "subsets[0].notReadyAddresses[0].ip",
        "subsets[0].ports[0].port",
    ]
