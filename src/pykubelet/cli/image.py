"""`image`: the images of the embedded runtime, for people; the agent need not run, and need not stop."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import IO, TYPE_CHECKING, Final, TypeVar

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.common import PATH, data_option, folder, quiet_option, saying

if TYPE_CHECKING:
    from pathlib import Path

    from pykubelet.runtime.process.images.store import ImageStore

T = TypeVar("T")

_root_dir_option: Final = click.option(
    "--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`."
)
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    try:
        store = _store(ctx.params.get("data"), ctx.params.get("root_dir"))
    except (Invalid, OSError):
        return []
    return [name for each in store.all() for name in each.names if name.startswith(incomplete)]


@click.group()
def image() -> None:
    """The images of the embedded runtime."""


@image.command("ls")
@data_option
@_root_dir_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_images(data: str | None, root_dir: str | None, output: str) -> None:
    """Show the images that are here."""
    import json

    store = _store(data, root_dir)
    used = store.used()
    rows = [
        {"name": name, "id": each.id, "size": each.size, "inUse": each.id in used}
        for each in store.all()
        for name in each.names or each.digests or ("<none>",)
    ]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    table = [("NAME", "ID", "SIZE", "IN USE")]
    for row in rows:
        short = str(row["id"]).removeprefix("sha256:")[:12]
        table.append((str(row["name"]), short, _size(int(str(row["size"]))), "yes" if row["inUse"] else "no"))
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for line in table:
        click.echo("  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]))


@image.command()
@click.argument("name")
@data_option
@_root_dir_option
@click.option("--username", default="", metavar="NAME", help="Who you are at the registry.")
@click.option("--password-stdin", is_flag=True, help="Read the password from the standard input; else it is asked for.")
@quiet_option
def pull(name: str, data: str | None, root_dir: str | None, username: str, password_stdin: bool, quiet: bool) -> None:
    """Pull an image from its registry.

    Pods that pull it themselves need not wait for that then."""
    import asyncio

    from pykubelet.pod.ports.runtime import PullCredentials
    from pykubelet.runtime.process.images.images import REGISTRIES
    from pykubelet.runtime.process.images.pull import Puller

    store = _store(data, root_dir)
    credentials = None
    if username:
        asked = sys.stdin.readline() if password_stdin else click.prompt("Password", hide_input=True)
        credentials = PullCredentials(username=username, password=asked.rstrip("\n"))
    with saying(quiet) as say:
        say(f"Pulling {name} ...")
        puller = Puller(store, store.root.parent.parent / REGISTRIES)
        pulled = _known(lambda: asyncio.run(puller.pull(name, credentials)))
        say(f"{next(iter((*pulled.names, *pulled.digests)))} is here ({_size(pulled.size)}).")


@image.command("import")
@click.argument("file", type=click.Path(allow_dash=True, readable=False))
@data_option
@_root_dir_option
@click.option("--name", default="", metavar="NAME", help="What to call it, if not by the names in the archive.")
@quiet_option
def import_images(file: str, data: str | None, root_dir: str | None, name: str, quiet: bool) -> None:
    """Take images from an archive.

    FILE is what `docker save` has written, or an OCI layout in one archive; - is the standard input."""
    import asyncio

    from pykubelet.runtime.process.images.archive import import_archive

    store = _store(data, root_dir)
    with saying(quiet) as say:
        with nullcontext(sys.stdin.buffer) if file == "-" else _opened(file) as archive:
            try:
                found = asyncio.run(import_archive(store, archive, name))
            except Invalid as error:
                raise Invalid(f"{'the standard input' if file == '-' else file}: {error}") from None
        for each in found:
            shown = ", ".join(each.names) or f"{each.id}, which has no name: give it one with `pykubelet image tag`"
            say(f"{shown} is here ({_size(each.size)}).")


@image.command()
@click.argument("name", shell_complete=_complete)
@click.argument("new_name")
@data_option
@_root_dir_option
def tag(name: str, new_name: str, data: str | None, root_dir: str | None) -> None:
    """Give an image one more name."""
    _known(partial(_store(data, root_dir).tag, name, new_name))


@image.command("rm")
@click.argument("names", nargs=-1, required=True, shell_complete=_complete)
@data_option
@_root_dir_option
@quiet_option
def remove(names: tuple[str, ...], data: str | None, root_dir: str | None, quiet: bool) -> None:
    """Remove images, by name or id."""
    store = _store(data, root_dir)
    with saying(quiet) as say:
        for name in names:
            _, is_gone = _known(partial(store.remove, name))
            say(f"{name} is gone." if is_gone else f"{name} is no name of the image any more.")


def _known(work: Callable[[], T]) -> T:
    from pykubelet.base.errors import NotFound

    try:
        return work()
    except NotFound as error:
        raise Invalid(str(error)) from None


def _opened(file: str) -> IO[bytes]:
    try:
        return open(file, "rb")
    except OSError as error:
        raise Invalid(f"{file}: {error.strerror}") from None


def _store(data: str | None, root_dir: str | None) -> "ImageStore":
    import os
    from pathlib import Path

    from pykubelet.runtime.endpoints import EMBEDDED
    from pykubelet.runtime.process.images.images import image_store

    if root_dir:
        root = Path(root_dir).absolute()
    else:
        ours = folder(data)
        plan = ours.plan() if ours.mark.exists() else None
        if plan is None:
            raise Invalid(f"there is no cluster in {ours.path}; start one with `pykubelet up`, or name it with --data")
        if not plan.runtime.startswith(EMBEDDED):
            raise Invalid(f"the pods here are on {plan.runtime}: use that runtime's own tools for its images")
        root = ours.state
    _check_owner(root, os.geteuid())
    store = image_store(root / "runtime")
    store.open()
    return store


def _check_owner(root: "Path", uid: int) -> None:
    """What somebody else has unpacked there the agent could not use."""
    try:
        owner = root.stat().st_uid
    except FileNotFoundError:
        return
    if owner != uid:
        raise Invalid(f"{root} belongs to user {owner}: run this as that user")


def _size(size: float) -> str:
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1000
    raise AssertionError
