"""`top`: the pods of a node, live on a terminal; a table for everybody else."""

from typing import TYPE_CHECKING, Any

import click

from pykubelet.base.errors import Invalid, Retry
from pykubelet.cli.common import PATH, data_option, folder, is_terminal

if TYPE_CHECKING:
    from pykubelet.cli.screen.sources import Look
    from pykubelet.cli.screen.view import View
    from pykubelet.cli.stories import Places

_ORDERS = ("name", "status", "restarts", "cpu", "memory", "age")


@click.command()
@click.argument("node", default="", metavar="[NODE]")
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Only this one [all].")
@click.option("--sort", "order", type=click.Choice(_ORDERS), default="name", show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Print it and end, on a terminal, too.")
@click.option("-w", "--watch", is_flag=True, help="Where it is printed: again whenever something changes.")
@click.option("--interval", type=click.FloatRange(0.5, 60), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--kubeconfig", type=PATH, metavar="FILE", help="Ask an API server, and its nodes through it.")
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
def top(
    node: str,
    namespace: str,
    order: Any,
    output: str | None,
    watch: bool,
    interval: float,
    kubeconfig: str | None,
    data: str | None,
    root_dir: str | None,
) -> None:
    """Show the pods of a node: what they do, what they use, and why they are not well; live on a terminal, where keys
    lead to explanations, logs, events and a shell.

    The agent of this machine is asked; with a kubeconfig those of all nodes, or of NODE, through the API server."""
    from pykubelet.cli.screen.view import View

    places = _places(kubeconfig, data, root_dir)
    if node and places.state is not None:
        raise Invalid(f"NODE is for an API server: give --kubeconfig, or leave out {node}")
    view = View(namespace=namespace, order=order)
    if output is None and is_terminal():
        _stay(places, node, view, interval)
    else:
        _print(places, node, view, output or "table", watch, interval)


def _places(kubeconfig: str | None, data: str | None, root_dir: str | None) -> "Places":
    from pathlib import Path

    from pykubelet.cli.stories import Places

    if root_dir:
        return Places(state=Path(root_dir), kubeconfig=kubeconfig or "")
    if kubeconfig:
        return Places(kubeconfig=kubeconfig)
    ours = folder(data)
    return Places(state=ours.state, kubeconfig=str(ours.admin_kubeconfig) if ours.admin_kubeconfig.exists() else "")


def _stay(places: "Places", node: str, view: "View", interval: float) -> None:
    try:
        from pykubelet.cli.screen.session import stay
    except ImportError:
        raise Invalid("this Python has no curses: use `pykubelet top -o table --watch`") from None
    stay(places, node, view, interval)


def _print(places: "Places", node: str, view: "View", output: str, watch: bool, interval: float) -> None:
    import asyncio
    import time

    shown = ""
    while True:
        try:
            text = _text(asyncio.run(_look(places, node)), view, output)
        except Retry as error:
            if not watch:
                raise
            text = str(error)
        if (gist := _gist(text)) != shown:
            click.echo(text)
            shown = gist
        if not watch:
            return
        time.sleep(interval)


async def _look(places: "Places", node: str) -> "Look":
    from pykubelet.cli.screen.sources import Source

    async with Source(places, node) as source:
        return await source.look()


def _text(look: "Look", view: "View", output: str) -> str:
    import json
    from datetime import UTC, datetime

    from pykubelet.cli.screen.drawing import plain_table
    from pykubelet.cli.screen.pod_lines import chosen, pod_lines

    if output == "json":
        return json.dumps({"version": 1, "kind": "NodeStateList", "items": list(look.states)}, ensure_ascii=False)
    lines = chosen(
        [line for state in look.states for line in pod_lines(state)], namespace=view.namespace, order=view.order
    )
    return plain_table(lines, datetime.now(UTC), has_node=len(look.states) > 1)


def _gist(text: str) -> str:
    """Not what differs by the clock alone: an age is the last word of a line."""
    return "\n".join(line.rsplit(None, 1)[0] for line in text.splitlines() if line.strip())
