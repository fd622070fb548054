"""`explain`: why a pod is not running, in one sentence, and where the time went. As `kubectl explainpod`, too."""

import os
from typing import TYPE_CHECKING, Any

import click

from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.cli.common import PATH, data_option, folder

if TYPE_CHECKING:
    from datetime import datetime

    from pykubelet.cli.stories import Asked, Places


@click.command()
@click.argument("names", nargs=-1, metavar="[POD|NODE]")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAMESPACE",
    help="[that of the kubeconfig's context; default; of a list all]",
)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="A list of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Go on, and tell what changes.")
@click.option("--since", default="", metavar="DURATION", help="Only this much of the timeline, such as 10m or 24h.")
@click.option("--kubeconfig", type=PATH, metavar="FILE", help="Ask an API server, and the pod's node through it.")
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
def explain(
    names: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    output: str,
    follow: bool,
    since: str,
    kubeconfig: str | None,
    data: str | None,
    root_dir: str | None,
) -> None:
    """Say why a pod is not running, what comes next and when, and where the time went. Without a POD: all pods that are
    not well, one line each.

    The agent of this machine is asked; when it does not run, its files tell what was written down last."""
    from pathlib import Path

    from pykubelet.cli.stories import Asked, Places, named

    name, own, is_node = named(names)
    if own and namespace and own != namespace:
        raise Invalid(f"{'/'.join(names)} is in namespace {own}, and -n says {namespace}: leave out one of them")
    namespace = namespace or own
    if kubeconfig:
        places = Places(kubeconfig=kubeconfig)
    elif root_dir:
        places = Places(state=Path(root_dir))
    else:
        ours = folder(data)
        admin = str(ours.admin_kubeconfig) if ours.admin_kubeconfig.exists() else ""
        places = Places(state=ours.state, kubeconfig=admin)
    if everywhere and (namespace or name):
        raise Invalid("-A is for a list of all namespaces: leave out " + ("-n" if namespace else f"{name}"))
    asked = Asked(name=name, namespace=namespace, is_node=is_node, everywhere=everywhere, since=_since(since))
    _tell(places, asked, output, follow)


def plugin() -> None:
    """What is installed as `kubectl-explainpod`: the kubeconfig is that of kubectl."""
    import sys

    from pykubelet.cli.main import main

    arguments = sys.argv[1:]
    if not any(each.partition("=")[0] == "--kubeconfig" for each in arguments):
        arguments += ["--kubeconfig", _kubectls_own()]
    main(["explain", *arguments], prog_name="kubectl explainpod")


def _kubectls_own() -> str:
    files = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    default = os.path.expanduser("~/.kube/config")
    return next((each for each in files if os.path.exists(each)), files[0] if files else default)


def _since(text: str) -> "datetime | None":
    from datetime import UTC, datetime, timedelta

    from pykubelet.api.durations import parse_duration

    if not text:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise Invalid(f"--since: {error}") from None


def _tell(places: "Places", asked: "Asked", output: str, follow: bool) -> None:
    import asyncio
    import time

    from pykubelet.cli.stories import tell

    try:
        told = asyncio.run(tell(places, asked))
    except NotFound as error:
        raise Invalid(str(error)) from None
    _print(told, output)
    while follow and told.get("state") not in ("Gone", "Succeeded", "Failed"):
        time.sleep(1.0)
        try:
            newer = asyncio.run(tell(places, asked))
        except Retry:
            continue  # whoever was there may come back
        _print_news(told, newer, output)
        told = newer


def _print(told: dict[str, Any], output: str) -> None:
    import json

    from pykubelet.cli.story_text import list_text, story_text

    if output == "json":
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        click.echo(list_text(told) if told.get("kind") == "StoryList" else story_text(told))


def _print_news(before: dict[str, Any], told: dict[str, Any], output: str) -> None:
    """Not what differs by the clock alone."""
    import json

    from pykubelet.cli.story_text import line_text, list_text

    if _gist(told) == _gist(before):
        return
    if output == "json":
        click.echo(json.dumps(told, ensure_ascii=False))
    elif told.get("kind") == "StoryList":
        click.echo(list_text(told))
    else:
        known = {(line["at"], line["what"]) for line in before["timeline"]}
        for line in told["timeline"]:
            if (line["at"], line["what"]) not in known:
                click.echo(line_text(line))
        if (told["state"], told["cause"]) != (before["state"], before["cause"]):
            click.echo(told["sentence"])


def _gist(told: dict[str, Any]) -> Any:
    if told.get("kind") == "StoryList":
        return [(each["uid"], each["state"], each["cause"]) for each in told["items"]]
    return told["state"], told["cause"], [(line["at"], line["what"]) for line in told["timeline"]]
