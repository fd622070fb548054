"""Options that several commands have."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pykubelet.base.log import configure_logging

if TYPE_CHECKING:
    from pykubelet.up.folder import Folder

F = TypeVar("F", bound=Callable[..., Any])

PATH: Final = click.Path(readable=False)
"""A shell completes it; what is wrong with it is said by who uses it."""

data_option: Final = click.option(
    "--data",
    "--data-dir",
    "data",
    type=PATH,
    metavar="PATH",
    help="The agent's folder.  [default: /var/lib/pykubelet, or the user's own]",
)

images_option: Final = click.option(
    "--images",
    type=click.Choice(["auto", "registry", "machine"]),
    help="Of the embedded runtime: from a registry or, where none can be reached, this machine's programs [auto].",
)

quiet_option: Final = click.option("-q", "--quiet", is_flag=True, help="Say nothing, unless something goes wrong.")


controllers_option: Final = click.option(
    "--controllers",
    default="",
    metavar="NAMES",
    help="Which controllers run here: `*` for all, `-*` for none, `name`, `-name`; kube-scheduler is one of them. [*]",
)

services_option: Final = click.option(
    "--services/--no-services",
    default=True,
    help="Have this node answer for services and their names, where it may use nftables [yes].",
)


def words(text: str) -> tuple[str, ...]:
    """Of a list with commas."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


@contextmanager
def saying(quiet: bool) -> Iterator[Callable[[str], None]]:
    """How a command says how far it is. Quiet ones keep it to themselves, until it is part of what went wrong."""
    if not quiet:
        yield click.echo
        return
    said: list[str] = []
    try:
        yield said.append
    except Exception:
        for text in said:
            click.echo(text, err=True)
        raise


def is_terminal() -> bool:
    """Whether a person reads along on something that understands more than lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def tell_trouble(text: str, say: Callable[[str], None]) -> None:
    """What does not stop the command, but is said by quiet ones, too. Red on a terminal, unless NO_COLOR is set."""
    if say is not click.echo:
        click.echo(text, err=True)
    elif is_terminal() and not os.environ.get("NO_COLOR"):
        say(click.style(text, fg="red"))
    else:
        say(text)


def logging_options(command: F) -> F:
    """For a command that runs until it is told to stop: it has to call `start_logging` with them."""
    verbosity = click.option(
        "-v", "--v", "verbosity", type=int, default=2, help="Log verbosity; 4 and above show how [2]."
    )
    form = click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
    return form(verbosity(command))


def start_logging(verbosity: int, logging_format: str) -> None:
    configure_logging(verbosity=verbosity, format="json" if logging_format == "json" else "text")


def folder(data: str | None) -> "Folder":
    """Of `up` and `join`, by the value of `data_option`."""
    from pathlib import Path

    from pykubelet.up.folder import Folder, default_folder

    return Folder(Path(data) if data else default_folder())
