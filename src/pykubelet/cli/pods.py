"""`pods`: what runs here, told by the agent itself."""

import click

from pykubelet.cli.common import PATH, data_option, folder


@click.command()
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def pods(data: str | None, root_dir: str | None, output: str) -> None:
    """Show the pods of the agent that runs here."""
    import json
    from pathlib import Path

    from pykubelet.cli.pod_table import pod_table
    from pykubelet.up.folder import asked_pods

    found = asked_pods(Path(root_dir) if root_dir else folder(data).state)
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": found}, indent=2))
    else:
        click.echo(pod_table(found))
