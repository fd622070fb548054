"""`page`: a link to what a browser shows of the node, for people on its machine."""

from typing import TYPE_CHECKING

import click

from pykubelet.base.errors import Retry
from pykubelet.cli.common import PATH, data_option, folder

if TYPE_CHECKING:
    from pathlib import Path

    from pykubelet.up.folder import Invitation


@click.command()
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
@click.option("--url", is_flag=True, help="Print the link alone.")
def page(data: str | None, root_dir: str | None, url: bool) -> None:
    """Print a link to the node's page, which lets one browser in, once."""
    from pathlib import Path

    from pykubelet.up.folder import invitation

    found = invitation(Path(root_dir) if root_dir else folder(data).state)
    click.echo(found.url if url else _told(found))


def page_link(state: "Path") -> str:
    """What is said of it where something else was asked for."""
    from pykubelet.up.folder import invitation

    try:
        return f"\nThe node in a browser:\n{_told(invitation(state))}"
    except Retry:
        return ""


def _told(of: "Invitation") -> str:
    from pykubelet.up.folder import called

    lines = [f"  {of.url}", f"  It works once, within {of.seconds / 60:.0f} minutes; `{called()} page` prints another."]
    if of.fingerprint:
        lines += [
            "  The browser warns: it does not know who made the certificate. It is the right one if its SHA-256 is",
            f"  {of.fingerprint}",
        ]
    return "\n".join(lines)
