"""`up`, `down` and `reset`: a small cluster on this machine, and what is told of it."""

import os
import sys
from shlex import quote
from typing import TYPE_CHECKING

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.common import data_flag, data_option, folder

if TYPE_CHECKING:
    from pathlib import Path

    from pykubelet.up.folder import Folder


@click.command()
@click.argument("manifests", default="", metavar="[MANIFESTS]")
@data_option
@click.option("--container-runtime-endpoint", default="", metavar="URL", help="The runtime [the best there is].")
@click.option(
    "--merge-kubeconfig", default="", metavar="FILE", help="A kubeconfig of yours that gets the cluster added."
)
@click.option(
    "--bind-address", default="", metavar="IP", help="Where the API server serves; 0.0.0.0: for others [127.0.0.1]."
)
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), metavar="PORT", help="The API server's [6443, or a free one]."
)
@click.option("--foreground", is_flag=True, help="Stay, and show a live table of the pods.")
def up(
    manifests: str,
    data: str | None,
    container_runtime_endpoint: str,
    merge_kubeconfig: str,
    bind_address: str,
    port: int,
    foreground: bool,
) -> None:
    """Start an API server and a node on this machine.

    Returns when they are ready. MANIFESTS is a file or folder of static pods."""
    from pathlib import Path

    from pykubelet.up import cluster

    given, ours = Path(manifests) if manifests else None, folder(data)
    faults = _faults(given) if given else ()
    plan = cluster.up(
        ours, click.echo, manifests=given, runtime=container_runtime_endpoint, bind=bind_address, port=port
    )
    if merge_kubeconfig:
        cluster.merge(ours, Path(merge_kubeconfig).expanduser(), click.echo)
    _show_pods(ours, settle=bool(given))
    if foreground:
        _stay(ours)
    else:
        click.echo(_what_next(ours, cluster.api_url(ours, plan), plan.node))
    if faults:
        raise Invalid("there are faults in the manifests, as told above: those pods are not running")


@click.command()
@data_option
def down(data: str | None) -> None:
    """Stop what was started, pods too; the data is kept."""
    from pykubelet.up.installation import Installation

    Installation(folder(data), click.echo).down()


@click.command()
@data_option
def reset(data: str | None) -> None:
    """Stop what was started, and remove all that it made."""
    from pykubelet.up.installation import Installation

    Installation(folder(data), click.echo).reset()


@click.command(hidden=True)
@click.option("--data", required=True, metavar="PATH")
def supervise(data: str) -> None:
    """Keep the parts of `up` and `join` running."""
    import asyncio
    from pathlib import Path

    from pykubelet.base.log import configure_logging
    from pykubelet.up.supervisor import PARTS, keep, read_parts

    configure_logging(verbosity=2)
    asyncio.run(keep(read_parts(Path(data) / PARTS), Path(data) / "up.lock"))


def _faults(manifests: "Path") -> tuple[str, ...]:
    """Told at once to the person who gives them, instead of in a log. Raises Invalid when there is nothing to run."""
    from pykubelet.sources.manifest_check import check_manifests

    pods, faults = check_manifests(manifests)
    for fault in faults:
        click.echo(fault)
    if not pods:
        raise Invalid(f"{manifests.absolute()}: there is no pod to run" + (", as told above" if faults else ""))
    return faults


def _show_pods(ours: "Folder", *, settle: bool) -> None:
    """With `settle`, once they have come to rest. Raises Invalid when they do not."""
    from pykubelet.cli.pod_table import pod_table
    from pykubelet.up.cluster import SETTLE_SECONDS, is_failing, is_settled, settled_pods, why_failing

    pods = settled_pods(ours, click.echo) if settle else ours.pods()
    if pods:
        click.echo("\n" + pod_table(pods) + "\n")
    for pod in pods:
        if is_failing(pod):
            click.echo(f"{pod['metadata']['name']} cannot run: {why_failing(pod)}")
    unsettled = [pod["metadata"]["name"] for pod in pods if settle and not is_settled(pod)]
    if unsettled:
        raise Invalid(f"not up after {SETTLE_SECONDS:g} s: {', '.join(unsettled)}; the log is {ours.log('agent')}")


def _stay(ours: "Folder") -> None:
    """Show a live table until Ctrl-C, then stop."""
    import time

    from pykubelet.cli.pod_table import pod_table
    from pykubelet.up.installation import Installation

    try:
        while True:
            click.echo("\033[2J\033[H" + pod_table(ours.pods()) + "\n\nCtrl-C stops everything.")
            time.sleep(1.0)
    except KeyboardInterrupt:
        Installation(ours, click.echo).down()


def _what_next(ours: "Folder", url: str, node: str) -> str:
    command = quote(os.path.relpath(sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0])
    data = data_flag(ours)
    return (
        f"The API server is at {url}, node {node} is ready. Next:\n"
        f"  use kubectl             export KUBECONFIG={quote(str(ours.admin_kubeconfig))}\n"
        f"  run something           kubectl run hello --image=busybox:1.36 -- sleep 1000\n"
        f"  see what runs           kubectl get pods -A -o wide\n"
        f"  stop everything         {command} down{data}\n"
        f"  remove everything       {command} reset{data}"
    )
