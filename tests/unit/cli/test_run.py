"""The agent itself, as a person sees it who runs it."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kit.loopback import serving
from pykubelet import __version__

AGENT = (sys.executable, "-m", "pykubelet")
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def manifest(name: str, image: str = "nginx:1") -> str:
    spec = f"{{containers: [{{name: c, image: '{image}'}}]}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n"


class Agent:
    """A running agent, as a person sees it: lines that come, and an end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.lines: list[str] = []
        self._process = process

    async def says(self, pattern: str) -> str:
        """The first line from here on that matches."""
        assert self._process.stderr is not None
        async with asyncio.timeout(30):
            while line := (await self._process.stderr.readline()).decode():
                self.lines.append(line.rstrip("\n"))
                if re.search(pattern, line):
                    return self.lines[-1]
        raise AssertionError(f"the agent ended without saying {pattern!r}: {self.lines}")

    async def says_all(self, *patterns: str) -> None:
        """In any order: what begins side by side is told as it comes."""
        left = set(patterns)
        while left:
            line = await self.says("|".join(f"(?:{each})" for each in left))
            left -= {each for each in left if re.search(each, line)}

    async def stops(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        async with asyncio.timeout(10):
            _, rest = await self._process.communicate()
            self.lines += rest.decode().splitlines()
            assert self._process.returncode is not None
            return self._process.returncode


@asynccontextmanager
async def agent(root: Path, *args: str) -> AsyncIterator[Agent]:
    command = [
        *AGENT,
        "run",
        "--root-dir",
        str(root / ".state"),
        "--stop-pods-on-exit",
        "--port=0",
        "--healthz-port=0",
        "--images=machine",
        *args,
    ]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        yield Agent(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_agent_tells_what_becomes_of_its_pods_until_it_is_told_to_stop(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with agent(tmp_path, "--pod-manifest-path", str(tmp_path), "--hostname-override", "N1") as running:
        await running.says_all(
            rf"pykubelet {re.escape(__version__)} is node n1 on process ",
            r"pods come from: file; state is in ",
            r"ADD from file: pod default/web-n1 \([0-9a-f]{32}\)$",
        )
        (tmp_path / "db.yaml").write_text(manifest("db"))
        await running.says(r"ADD from file: pod default/db-n1 ")
        (tmp_path / "db.yaml").unlink()
        await running.says(r"REMOVE from file: pod default/db-n1 ")
        (tmp_path / "web.yaml").write_text("kind: Nonsense")
        await running.says(r"web\.yaml:1:1: is neither a Pod nor a PodList")
        await running.says(r"web\.yaml: still running from before: web-n1$")
        assert await running.stops(number) == 0
        assert any(line.endswith("stopping; so do the pods") for line in running.lines)
        assert not [line for line in running.lines if "Traceback" in line]


async def test_flags_override_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.headers.get("X-Key", ""))
        return web.Response(text=manifest("from-url"))

    (tmp_path / "pod.yaml").write_text(manifest("from-flag"))
    async with serving(answer) as port:
        config = tmp_path / ".kubelet.yaml"
        config.write_text(
            HEAD + f"staticPodPath: /nonexistent\nstaticPodURL: http://127.0.0.1:{port}/\n"
            "staticPodURLHeader: {X-Key: [s3cret]}\nhairpinMode: none\n"
        )
        args = ["--config", str(config), "--pod-manifest-path", f"{tmp_path}/pod.yaml", "--hostname-override", "n1"]
        async with agent(tmp_path, *args, "--logging-format", "json", "-v", "4") as running:
            told = {json.loads(await running.says("ADD from"))["msg"].split(" (")[0] for _ in range(2)}
            assert told == {"ADD from file: pod default/from-flag-n1", "ADD from http: pod default/from-url-n1"}
            assert await running.stops(signal.SIGTERM) == 0
    assert asked == ["s3cret"]
    messages = [json.loads(line)["msg"] for line in running.lines]
    assert "hairpinMode has no effect: the runtime's CNI plug-ins decide it" in messages
    assert "nonexistent" not in str(messages)
    assert "s3cret" not in str(messages)


async def test_a_folder_of_manifests_that_does_not_exist_is_an_error_at_the_start(tmp_path: Path) -> None:
    async with agent(tmp_path, "--pod-manifest-path", str(tmp_path / "none"), "--hostname-override", "n1") as running:
        line = await running.says("pykubelet: ")
        assert line == f"pykubelet: {tmp_path}/none: there is no such file or folder of manifests"


async def test_a_second_agent_on_the_same_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    args = ["--pod-manifest-path", str(tmp_path / "m"), "--hostname-override", "n1"]
    async with agent(tmp_path, *args) as first:
        await first.says("pods come from")
        async with agent(tmp_path, *args) as second:
            await second.says("pykubelet: another agent is running here")
        assert await first.stops(signal.SIGTERM) == 0
