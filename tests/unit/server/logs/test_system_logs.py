import os
from pathlib import Path

import pytest

from kit.kubelet_server import client
from pykubelet.server.logs import system_logs


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    (folder / "deep").mkdir(parents=True)
    (folder / "syslog").write_text("one\ntwo\n")
    (folder / "deep" / "a b<c>.log").write_text("deep\n")
    (tmp_path / "secret").write_text("key\n")
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "web.log").write_text("web\n")
    (tmp_path / "log2").mkdir()
    (tmp_path / "log2" / "secret").write_text("key\n")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "near").symlink_to(tmp_path / "log2")
    (folder / "web.log").symlink_to(tmp_path / "pods" / "web.log")
    os.mkfifo(folder / "pipe")
    return folder


async def test_log_files_can_be_read_and_looked_through(logs: Path) -> None:
    async with client(system_logs.routes(logs, (logs.parent / "pods",))) as server:
        assert await server.get("/logs/syslog") == (200, "one\ntwo\n")
        assert await server.get("/logs/deep/a%20b%3Cc%3E.log") == (200, "deep\n")
        assert await server.get("/logs/web.log") == (200, "web\n")
        status, page = await server.get("/logs/")
        assert status == 200
        assert '<a href="deep/">deep/</a>' in page
        assert '<a href="a%20b%3Cc%3E.log">a b&lt;c&gt;.log</a>' in (await server.get("/logs/deep/"))[1]
        assert (await server.get("/logs"))[0] == 301
        assert (await server.get("/logs/deep"))[0] == 301


@pytest.mark.parametrize(
    "path",
    [
        "/logs/../secret",
        "/logs/%2e%2e/secret",
        "/logs/..%2fsecret",
        "/logs/%2e%2e%2fsecret",
        "/logs/deep/../../secret",
        "/logs/deep/%2e%2e/%2e%2e/secret",
        "/logs//etc/passwd",
        "/logs/%2fetc%2fpasswd",
        "/logs/out",
        "/logs/near/secret",
        "/logs/pipe",
        "/logs/syslog%00.txt",
        "/logs/nothing",
        "/logs/" + "x" * 5000,
    ],
)
async def test_nothing_outside_of_the_folder_can_be_had(logs: Path, path: str) -> None:
    from yarl import URL

    async with client(system_logs.routes(logs)) as server:
        url = URL(f"{server.session._base_url}".rstrip("/") + path, encoded=True)
        async with server.session.get(url) as answer:
            assert answer.status == 404
            assert "key" not in await answer.text()


async def test_logs_can_be_switched_off(logs: Path) -> None:
    async with client(system_logs.routes(logs, enabled=False)) as server:
        assert await server.get("/logs/syslog") == (405, "logs endpoint is disabled.\n")
