"""`pykubelet page`: the link that the agent gives to people on its machine, and what is said beside it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pykubelet.cli.main import main
from pykubelet.cli.page import page_link
from pykubelet.server.control_socket import control_socket

LINK = {"url": "https://10.0.0.1:10250/page/enter?token=abc", "seconds": 900.0, "fingerprint": "AB:CD"}


@contextmanager
def agent(state: Path, answers: Mapping[str, Any]) -> Iterator[None]:
    """One that answers these questions."""
    ready, over = threading.Event(), threading.Event()

    def said(name: str) -> Callable[[str], Any]:
        return lambda _: answers[name]

    async def answer() -> None:
        async with control_socket(state / "pykubelet.sock", {name: said(name) for name in answers}):
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(answer(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join()


def page(state: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["page", "--root-dir", str(state), *args])


def test_the_link_is_told_with_how_long_it_works_and_whose_certificate_it_is(tmp_path: Path) -> None:
    with agent(tmp_path, {"page": LINK}):
        told = page(tmp_path)
        assert page(tmp_path, "--url").output == f"{LINK['url']}\n"
        assert page_link(tmp_path).endswith(told.output.rstrip("\n"))
    assert told.exit_code == 0
    lines = told.output.splitlines()
    assert lines[0].strip() == LINK["url"]
    assert "once, within 15 minutes" in lines[1]
    assert lines[-1].strip() == "AB:CD"


def test_without_a_certificate_nothing_is_said_of_one(tmp_path: Path) -> None:
    with agent(tmp_path, {"page": {**LINK, "fingerprint": ""}}):
        assert "SHA-256" not in page(tmp_path).output


def test_an_agent_without_a_page_says_so(tmp_path: Path) -> None:
    with agent(tmp_path, {"pods": []}):
        told = page(tmp_path)
        assert page_link(tmp_path) == "", "where something else was asked for, that is no trouble"
    assert told.exit_code == 1
    assert "the agent has no page" in told.output


def test_without_an_agent_nobody_answers(tmp_path: Path) -> None:
    told = page(tmp_path)
    assert told.exit_code == 1
    assert "no agent answers" in told.output
    assert page_link(tmp_path) == ""
