"""Options that several commands have."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pykubelet.base.log import configure_logging

if TYPE_CHECKING:
    from pykubelet.up.folder import Folder

F = TypeVar("F", bound=Callable[..., Any])

data_option: Final = click.option(
    "--data", metavar="PATH", help="The agent's folder.  [default: /var/lib/pykubelet, or the user's own]"
)


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


def data_flag(folder: "Folder") -> str:
    """What has to be added to commands for them to mean that folder."""
    from shlex import quote

    from pykubelet.up.folder import default_folder

    return "" if folder.path == default_folder() else f" --data {quote(str(folder.path))}"
