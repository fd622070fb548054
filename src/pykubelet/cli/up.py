"""`up`, `down` and `reset`: a small cluster on this machine, and what is told of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

import click

from pykubelet.base.errors import Invalid, Retry
from pykubelet.cli.common import (
    PATH,
    controllers_option,
    data_option,
    folder,
    images_option,
    is_terminal,
    quiet_option,
    saying,
    services_option,
    tell_trouble,
    words,
)
from pykubelet.cli.page import page_link

if TYPE_CHECKING:
    from pathlib import Path

    from pykubelet.up.folder import Folder, Plan, Say

_STATIC = "\n\nStatic pods (NAME-{}) come from {}: deleted ones come back, until their manifest goes."


@click.command()
@click.argument("manifests", default="", type=PATH, metavar="[MANIFESTS]")
@data_option
@click.option("--container-runtime-endpoint", default="", metavar="URL", help="The runtime [the best there is].")
@click.option(
    "--merge-kubeconfig",
    default="",
    type=PATH,
    metavar="FILE",
    help="A kubeconfig of yours that gets the cluster added.",
)
@click.option(
    "--bind-address", default="", metavar="IP", help="Where the API server serves; 0.0.0.0: for others [127.0.0.1]."
)
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), metavar="PORT", help="The API server's [6443, or a free one]."
)
@controllers_option
@click.option(
    "--refuse-unenforced", is_flag=True, help="Run no pods whose limits cannot be enforced here [they are told]."
)
@services_option
@images_option
@click.option("--foreground", is_flag=True, help="Stay, and show a live table of the pods.")
@quiet_option
def up(
    manifests: str,
    data: str | None,
    container_runtime_endpoint: str,
    merge_kubeconfig: str,
    bind_address: str,
    port: int,
    controllers: str,
    refuse_unenforced: bool,
    services: bool,
    images: str | None,
    foreground: bool,
    quiet: bool,
) -> None:
    """Start an API server and a node on this machine.

    Returns when they are ready. MANIFESTS is a file or folder of static pods."""
    from pathlib import Path

    from pykubelet.up import cluster

    given, ours = Path(manifests) if manifests else None, folder(data)
    with saying(quiet) as say, _left_running(ours):
        faults = _faults(given, say) if given else ()
        choice = words(controllers)
        plan = cluster.up(
            ours,
            say,
            manifests=given,
            runtime=container_runtime_endpoint,
            bind=bind_address,
            port=port,
            controllers=choice,
            refuse_unenforced=refuse_unenforced,
            services=services,
            images=images or "",
        )
        if merge_kubeconfig:
            cluster.merge(ours, Path(merge_kubeconfig).expanduser(), say)
        _show_pods(ours, say, settle=bool(given))
        if foreground:
            link = page_link(ours.state) if sys.stdout.isatty() else ""  # in a log others could find it
            if link:
                say(link)
            _stay(ours, say, link, quiet=quiet)
        else:
            say(_what_next(ours, cluster.api_url(ours, plan), plan))
            say(page_link(ours.state))
        if faults:
            raise Invalid("there are faults in the manifests, as told above: those pods are not running")


@click.command()
@data_option
@quiet_option
def down(data: str | None, quiet: bool) -> None:
    """Stop what was started, pods too; the data is kept."""
    from pykubelet.up.installation import Installation

    with saying(quiet) as say:
        Installation(folder(data), say).down()


@click.command()
@data_option
@quiet_option
def reset(data: str | None, quiet: bool) -> None:
    """Stop what was started, and remove all that it made."""
    from pykubelet.up.installation import Installation

    with saying(quiet) as say:
        Installation(folder(data), say).reset()


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


@contextmanager
def _left_running(ours: "Folder") -> Iterator[None]:
    """Whoever no longer wants to wait learns that what was started goes on."""
    from pykubelet.up.folder import called
    from pykubelet.up.installation import Installation

    try:
        yield
    except KeyboardInterrupt:
        if not Installation(ours, click.echo).is_running:
            raise
        again = f"`{called()} up{ours.flag}` waits for it, `{called()} down{ours.flag}` stops it"
        raise Retry(f"interrupted, but what was started goes on: {again}") from None


def _faults(manifests: "Path", say: "Say") -> tuple[str, ...]:
    """Told at once to the person who gives them, instead of in a log. Raises Invalid when there is nothing to run."""
    from pykubelet.sources.manifest_check import check_manifests

    pods, faults = check_manifests(manifests)
    for fault in faults:
        say(fault)
    if not pods:
        raise Invalid(f"{manifests.absolute()}: there is no pod to run" + (", as told above" if faults else ""))
    return faults


def _show_pods(ours: "Folder", say: "Say", *, settle: bool) -> None:
    """With `settle`, once they have come to rest. Raises Invalid when they do not."""
    from pykubelet.cli.pod_table import pod_table
    from pykubelet.up.cluster import SETTLE_SECONDS, is_failing, is_settled, settled_pods, why_failing

    pods = settled_pods(ours, say) if settle else ours.pods()
    if pods:
        say("\n" + pod_table(pods) + "\n")
    for pod in pods:
        if is_failing(pod):
            tell_trouble(f"{pod['metadata']['name']} cannot run: {why_failing(pod)}", say)
    unsettled = [pod["metadata"]["name"] for pod in pods if settle and not is_settled(pod)]
    if unsettled:
        raise Invalid(f"not up after {SETTLE_SECONDS:g} s: {', '.join(unsettled)}; the log is {ours.log('agent')}")


def _stay(ours: "Folder", say: "Say", link: str, *, quiet: bool) -> None:
    """Show a live table until Ctrl-C or SIGTERM, then stop. Raises Retry when what runs has ended by itself. A service
    manager that wants to know is told twice in each period that all parts answer."""
    import signal
    from time import monotonic

    from pykubelet.base.service_manager import tell_ready, tell_well, watchdog_period
    from pykubelet.up.installation import Installation

    period, due, plan = watchdog_period(), 0.0, ours.plan()
    installation, told = Installation(ours, say), {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, told)  # they are taken between two looks
    tell_ready()
    shown = ""
    while installation.is_running:
        shown = shown if quiet else _show_live(ours, shown, link)
        if period and monotonic() >= due:
            if why := installation.trouble(plan):
                tell_trouble(f"not well: {why}", say)
            else:
                tell_well()
            due = monotonic() + period / 2
        if signal.sigtimedwait(told, 1.0):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, told)  # what is started to stop the rest has to hear of them
            installation.down()
            return
    raise Retry(f"what ran here has ended; the log is {ours.log('up')}")


def _show_live(ours: "Folder", shown: str, link: str) -> str:
    """A screen that is written anew; where there is none, lines when something other than an age has changed."""
    from pykubelet.cli.pod_table import pod_table

    table = pod_table(pods := ours.pods())
    if is_terminal():
        click.echo("\033[2J\033[H" + table + f"\n\n{link}\nCtrl-C stops everything.")
        return table
    state = "\n".join(line.rsplit(None, 1)[0] for line in table.splitlines()) if pods else table
    if state != shown:
        click.echo(table + "\n")
    return state


def _what_next(ours: "Folder", url: str, plan: "Plan") -> str:
    import shutil

    from pykubelet.up.folder import called

    command, data = called(), ours.flag
    missing = "" if shutil.which("kubectl") else "  get kubectl             https://kubernetes.io/docs/tasks/tools/\n"
    return (
        f"The API server is at {url}, node {plan.node} is ready. Next:\n"
        f"{missing}"
        f"  use kubectl             export KUBECONFIG={quote(str(ours.admin_kubeconfig))}\n"
        f"  run something           kubectl run hello --image=busybox:1.36 -- sleep 1000\n"
        f"  see what runs           kubectl get pods -A -o wide\n"
        f"  stop everything         {command} down{data}\n"
        f"  remove everything       {command} reset{data}"
    ) + (_STATIC.format(plan.node, plan.manifests) if plan.manifests else "")
