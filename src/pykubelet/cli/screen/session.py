"""A person before a terminal: keys and news change the view, the view is drawn, and what keys ask for is done."""

import asyncio
import queue
from datetime import UTC, datetime
from typing import Final, assert_never

import click

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.screen.backstage import Backstage, Lines, News, Seen, Silence
from pykubelet.cli.screen.drawing import drawn, room
from pykubelet.cli.screen.pod_lines import node_line, pod_lines
from pykubelet.cli.screen.shell import run_shell
from pykubelet.cli.screen.sources import Source
from pykubelet.cli.screen.terminal import Terminal, opened
from pykubelet.cli.screen.view import Close, Leave, Open, Shell, View, heard, pressed, reading, replaced
from pykubelet.cli.stories import Places

_TICK: Final = 0.25
"""Seconds after which the screen is looked at again although no key came."""


def stay(places: Places, node: str, view: View, interval: float) -> None:
    """Until the person leaves."""
    backstage = Backstage(lambda: Source(places, node), interval)
    with opened() as terminal:
        backstage.start()
        try:
            _serve(terminal, backstage, view, places)
        except KeyboardInterrupt:
            pass
        finally:
            backstage.stop()


def _serve(terminal: Terminal, backstage: Backstage, view: View, places: Places) -> None:
    while True:
        view = _with_news(view, backstage)
        columns, height = terminal.size
        terminal.draw(drawn(view, columns, height, datetime.now(UTC)))
        key = terminal.key(_TICK)
        if not key or key == "resize":
            continue
        view, action = pressed(view, key, columns, room(view, height))
        match action:
            case None:
                pass
            case Leave():
                return
            case Open():
                backstage.read(action)
            case Close():
                backstage.read(None)
            case Shell():
                view = replaced(view, notice=_shell(terminal, places, action))
            case _:
                assert_never(action)


def _with_news(view: View, backstage: Backstage) -> View:
    while True:
        try:
            view = after(view, backstage.news.get_nowait())
        except queue.Empty:
            return view


def after(view: View, news: News) -> View:
    """What there is to see after a word from backstage."""
    match news:
        case Seen(look=look):
            states = look.states
            pods = [line for state in states for line in pod_lines(state)]
            return heard(view, [node_line(state) for state in states], pods, look.complaint)
        case Silence(why=why):
            return replaced(view, complaint=f"{why}; trying again", has_heard=True)
        case Lines(of=what, lines=lines, complaint=complaint):
            text = view.text
            if text is None or (text.kind, text.container) != (what.kind, what.container) or text.pod != what.pod:
                return view  # it is read no more
            return reading(view, lines or text.lines, complaint=complaint)
        case _:
            assert_never(news)


def _shell(terminal: Terminal, places: Places, shell: Shell) -> str:
    """-> why there was none."""
    said: list[str] = []

    def sit() -> None:
        click.echo(f"A shell in {shell.container} of {shell.pod.namespace}/{shell.pod.name}; exit ends it.")
        try:
            said.append(asyncio.run(_in_shell(places, shell)))
        except PykubeletError as error:
            said.append(str(error))

    terminal.lent(sit)
    return f"no shell in {shell.container}: {said[0]}" if said and said[0] else ""


async def _in_shell(places: Places, shell: Shell) -> str:
    async with Source(places) as source:
        return await run_shell(await source.server(), shell)
