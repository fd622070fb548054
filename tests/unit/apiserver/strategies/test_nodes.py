"""Nodes."""

from kit.api_process import Api


async def test_a_node_keeps_its_status_and_waits_to_be_ready(api: Api) -> None:
    given = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4000m"}}}
    _, made = await api.ask("POST", "/api/v1/nodes", given)
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
