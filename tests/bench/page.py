"""What the page costs the agent: a node whose hundred pods all change every second, watched over HTTP by other
processes; and what an agent pays that nobody looks at."""

# ruff: noqa: ASYNC220 - a benchmark may block
import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from kit.kubelet_server import OpenToAll
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.base.tasks import supervise
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.server.application import application
from pykubelet.server.explainer import Explainer
from pykubelet.server.page.page import Page, Shown
from pykubelet.web.serving import serving

PODS = 100
SECONDS = 12
LISTENERS = (0, 1, 10)
_CLIENT = (
    "import sys, urllib.request\n"
    "answer, count = urllib.request.urlopen(sys.argv[1]), 0\n"
    "while data := answer.read1(65536): count += len(data)\n"
)


class Restless:
    """Each of its pods starts anew every second."""

    node_name = "n1"

    def __init__(self) -> None:
        self.journal = m.Journal(rule)
        self._pods = {number: _pod(number, 0) for number in range(PODS)}

    def pods(self) -> Sequence[Pod]:
        return tuple(self._pods.values())

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        return None

    def sandbox_id(self, uid: str) -> str:
        return ""

    def lateness(self) -> float:
        return 0.0

    async def live(self) -> None:
        turn = 0
        while True:
            turn += 1
            for number in range(PODS):
                self._change(number, turn)
                await asyncio.sleep(1 / PODS)

    def _change(self, number: int, turn: int) -> None:
        pod = self._pods[number] = _pod(number, turn)
        whose, now = m.about(pod), datetime.now(UTC)
        if turn == 1:
            self.journal.note(m.Merged(Op.ADD, "api"), whose)
            self.journal.note(m.Began(1, now, True), whose)
            self.journal.note(m.SandboxMade(0, "", False, 0.1), whose)
        self.journal.note(m.Exited("c", turn, 0, "Completed", now - timedelta(seconds=1), now), whose)
        self.journal.note(m.ContainerStarted("c", "container", turn + 1), whose)
        self.journal.note(m.StatusSet("Running", "", turn % 2 == 0, now), whose)


def _pod(number: int, restarts: int) -> Pod:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {
        "name": "c", "ready": restarts % 2 == 0, "restartCount": restarts, "image": "busybox:1.36", "imageID": "0",
        "state": {"running": {"startedAt": now}},
        "lastState": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}},
    }  # fmt: skip
    value: dict[str, Any] = {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}"},
        "spec": {"nodeName": "n1", "restartPolicy": "Always", "containers": [{"name": "c", "image": "busybox:1.36"}]},
        "status": {"phase": "Running", "startTime": now, "containerStatuses": [status]},
    }
    return codec.convert(Pod, value)


def run() -> None:
    print(f"page: {PODS} pods that change every second, {SECONDS} s, of one core")
    print(f"\n{'listeners':>9} {'whole':>8} {'page':>8} {'goal':>6}")
    asyncio.run(_measure())


async def _measure() -> None:
    node = Restless()

    async def history(**_: object) -> list[m.Noted]:
        return []

    shown = Shown(
        inside=node,
        explainer=Explainer(node.pods, node.journal.of, history, NodeTrouble, "/nowhere", node="n1"),
        journal=node.journal,
        picture=lambda: None,
        node=lambda: None,
        trouble=NodeTrouble,
        stats=None,
        version="0",
    )
    page = Page(shown, OpenToAll(), lambda: None)
    app = application(page.routes(), page.auth)
    page.attend(app)
    async with serving(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        work = {**page.parts(), "node": node.live}
        tasks = [asyncio.create_task(supervise(name, part)) for name, part in work.items()]
        alone = 0.0
        for count in LISTENERS:
            command = [sys.executable, "-c", _CLIENT, f"http://127.0.0.1:{port}/page/stream"]
            clients = [subprocess.Popen(command) for _ in range(count)]
            await asyncio.sleep(2)
            began, used = time.monotonic(), time.process_time()
            await asyncio.sleep(SECONDS)
            share = 100 * (time.process_time() - used) / (time.monotonic() - began)
            alone = alone or share
            print(f"{count:>9} {share:>7.1f}% {share - alone:>7.1f}% {10:>5}%", flush=True)
            for client in clients:
                client.kill()
                client.wait()
        async with session.get(f"http://127.0.0.1:{port}/page/state") as answer:
            print(f"\neverything at once: {len(await answer.read()) / 1024:.0f} KiB")
        for task in tasks:
            task.cancel()
