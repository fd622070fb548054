from datetime import UTC, datetime

from pykubelet.cli.pod_table import pod_table

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def test_the_table_has_a_line_for_each_pod() -> None:
    status = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [{"name": "c", "ready": True, "restartCount": 3, "state": {"running": {}}}],
    }
    web = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c"}]},
        "status": status,
    }
    text = pod_table([web], NOW)
    assert [line.split() for line in text.splitlines()] == [
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["default", "web", "1/1", "Running", "3", "10m"],
    ]
    assert pod_table([]) == "No pods here."
