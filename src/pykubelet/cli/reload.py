"""`reload`: the agent reads its configuration again."""

import click

from pykubelet.base.errors import Invalid, Retry
from pykubelet.cli.common import PATH, data_option, folder


@click.command()
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
def reload(data: str | None, root_dir: str | None) -> None:
    """Have the agent read its configuration files again: say what was applied, and what takes a restart. A bad file
    changes nothing."""
    import asyncio
    from pathlib import Path

    from pykubelet.server.control_socket import ask

    state = Path(root_dir) if root_dir else folder(data).state
    answer = asyncio.run(ask(state / "pykubelet.sock", "reload"))
    if "error" in answer:
        raise Retry(answer["error"]) if answer.get("kind") == "Retry" else Invalid(answer["error"])
    for name, text in (("applied", "applied"), ("kept", "takes a restart")):
        for field in answer[name]:
            click.echo(f"{text}: {field}")
    if not answer["applied"] and not answer["kept"]:
        click.echo("the configuration is what it was")
