import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.up.folder import Folder, Plan
from pykubelet.up.installation import Installation
from pykubelet.up.wait import answers


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are taken, and nobody ever says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def kubeconfig(path: Path, port: int) -> str:
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c"}}
    path.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"}))
    return str(path)


def test_a_server_that_says_nothing_does_not_answer(tmp_path: Path, silent: int) -> None:
    began = time.monotonic()
    assert not asyncio.run(answers(kubeconfig(tmp_path / "conf", silent), 0.1))
    assert time.monotonic() - began < 10


def test_the_part_that_does_not_answer_is_named(tmp_path: Path, silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    kubeconfig(folder.admin_kubeconfig, silent)
    installation = Installation(folder, print)
    plan = Plan(node="n1", address="127.0.0.1", api_port=silent, kubelet_port=1, runtime="process")
    monkeypatch.setattr("pykubelet.up.installation._PATIENCE", 0.1)
    assert installation.trouble(plan) == "the API server does not answer"

    async def well(conf: str, seconds: float) -> bool:
        return True

    monkeypatch.setattr("pykubelet.up.wait.answers", well)
    assert installation.trouble(plan).startswith(f"the node does not answer: no agent answers at {tmp_path}")
