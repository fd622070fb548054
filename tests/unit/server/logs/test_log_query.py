"""Services of this machine asked for their logs, with a journalctl that says what it was asked."""

from pathlib import Path

import pytest

from kit.kubelet_server import client
from pykubelet.server.logs import log_query, system_logs

JOURNALCTL = """#!/bin/sh
if [ "$1" = --field ]; then printf 'kubelet.service\\ncontainerd.service\\n'; exit; fi
for each in "$@"; do echo "<$each>"; done
"""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.write_text(JOURNALCTL)
    program.chmod(0o755)
    monkeypatch.setattr(log_query, "_JOURNAL", str(program))
    folder = tmp_path / "log"
    (folder / "nginx").mkdir(parents=True)
    (folder / "nginx" / "nginx.log").write_text("from a file\n")
    (folder / "syslog").write_text("one\n")
    (tmp_path / "secret").write_text("key\n")
    return folder


async def test_a_service_is_asked_for_through_the_journal(logs: Path) -> None:
    query = "query=kubelet&tailLines=5&sinceTime=2026-01-02T03:04:05%2B01:00&boot=-1&pattern=-x%20y"
    async with client(system_logs.routes(logs, queries=True)) as server:
        status, text = await server.get(f"/logs/?{query}")
        assert status == 200
        assert text.splitlines() == [
            *("<--utc>", "<--no-pager>", "<--output=short-precise>", "<--since=2026-01-02 02:04:05 UTC>"),
            *("<--pager-end>", "<--lines=5>", "<--unit=kubelet>", "<--grep=-x y>", "<--boot=-1>"),
        ]
        status, text = await server.get("/logs/?query=kubelet&query=containerd&query=other")
        assert [line for line in text.splitlines() if "unit" in line] == ["<--unit=kubelet>", "<--unit=containerd>"]


async def test_a_service_without_a_journal_may_have_a_file(logs: Path) -> None:
    async with client(system_logs.routes(logs, queries=True)) as server:
        assert await server.get("/logs/?query=nginx") == (200, "from a file\n")
        assert await server.get("/logs/?query=/syslog") == (200, "one\n")
        assert await server.get("/logs/?query=nobody") == (200, "log not found for nobody\n")
        assert (await server.get("/logs/?query=nginx&tailLines=1"))[1].startswith("options present")
        assert await server.get("/logs/syslog") == (200, "one\n")


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("query=%20", 400, "query: may not be empty"),
        ("query=kubelet&sinceTime=yesterday", 400, "sinceTime: 'yesterday' is not a time"),
        ("query=kubelet&tailLines=all", 400, "tailLines: 'all' is not a whole number"),
        ("tailLines=5", 406, "query: cannot be empty with options"),
        ("query=kubelet%20--file=x", 406, "query: 'kubelet --file=x' is not the name of a service"),
        ("query=kubelet%00", 406, "query: 'kubelet\\x00' is not the name of a service"),
        ("query=a&query=b&query=c&query=d&query=e", 406, "query: must not name more than 4 services"),
        ("query=/syslog&query=kubelet", 406, "query: cannot name a file and anything else"),
        ("query=/syslog&tailLines=1", 406, "query: cannot name a file with options"),
        ("query=kubelet&tailLines=100001", 406, "tailLines: must be from 0 to 100000"),
        ("query=kubelet&boot=1", 406, "boot: must be less than 1"),
        ("query=kubelet&pattern=%00", 406, "pattern: must be text"),
        ("query=/../secret", 404, "404 page not found"),
        (
            "query=kubelet&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z",
            406,
            "untilTime: must be after sinceTime",
        ),
    ],
)
async def test_what_may_not_be_asked_is_refused(logs: Path, query: str, status: int, why: str) -> None:
    async with client(system_logs.routes(logs, queries=True)) as server:
        found, text = await server.get(f"/logs/?{query}")
    assert (found, text.startswith(why)) == (status, True), text


async def test_services_are_asked_only_where_people_want_that(logs: Path) -> None:
    async with client(system_logs.routes(logs)) as server:
        status, text = await server.get("/logs/?query=kubelet")
        assert status == 200
        assert "<pre>" in text  # the folder, as without a query


async def test_a_path_and_a_query_do_not_go_together(logs: Path) -> None:
    async with client(system_logs.routes(logs, queries=True)) as server:
        assert (await server.get("/logs/syslog?query=kubelet"))[0] == 406
