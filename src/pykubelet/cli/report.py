"""`report`: one archive for a bug report."""

import click

from pykubelet.cli.common import PATH, data_option, folder


@click.command()
@click.argument("file", type=PATH)
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
def report(file: str, data: str | None, root_dir: str | None) -> None:
    """Write one archive (FILE, a .tar.gz) for a bug report: a summary, version, configuration, stories of pods that are
    not well, pods, journal, recent log and facts of the machine, without secrets."""
    from pathlib import Path

    from pykubelet.up.support_bundle import write_report

    ours = None if root_dir else folder(data)
    state = ours.state if ours else Path(root_dir or "")
    summary = write_report(Path(file), state, ours.path if ours else None)
    click.echo(f"{summary}\nWritten to {file}.")
