"""`run`, the node agent; and the same under the name of the Go program that it takes the place of, `kubelet`."""

import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.log import configure_logging
from pykubelet.cli.common import PATH
from pykubelet.config.flags import Flags, completable, described

log = logging.getLogger(__name__)

_KUBELET: Final = "kubelet"


class _AsGoDoes(click.Command):
    """The arguments are the agent's own: Click's ways of reading them are not Go's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """For a shell that completes them."""
        return [_completed(*each) for each in completable()]


@click.command(cls=_AsGoDoes, add_help_option=False)
def run(arguments: Sequence[str]) -> None:
    """Run the node agent until it is told to stop. Pods go on running without it."""
    run_agent(arguments, "pykubelet run")


def kubelet(arguments: Sequence[str]) -> int:
    """Behaves as Go's program of that name does on a command line. -> the exit code."""
    try:
        run_agent(arguments, _KUBELET)
    except (Invalid, Retry) as error:
        message = str(error).replace("\n", "\\n")  # it may quote what somebody else wrote
        click.echo(f"{_KUBELET}: {message}", err=True)
        return 1
    return 0


def called() -> None:
    """What is installed as `pykubelet` and as `kubelet`: the name that it is called by decides."""
    if os.path.basename(sys.argv[0]) == _KUBELET:
        sys.exit(kubelet(sys.argv[1:]))
    from pykubelet.cli.main import main

    main(prog_name="pykubelet")


def run_agent(arguments: Sequence[str], program: str) -> None:
    """Until it is told to stop. Raises Invalid."""
    try:
        flags = Flags(arguments)
    except Invalid as error:
        raise Invalid(f"{error} (see {program} --help)") from None
    if flags.asks_for_help:
        click.echo(_help(program))
        return
    if flags.version in ("true", "raw"):
        click.echo(_version(flags.version))
        return
    import asyncio

    from pykubelet.app.kubelet import run_kubelet
    from pykubelet.app.reloading import ConfigFiles
    from pykubelet.config.agent import log_settings, make_config, tell_what_is_in_vain

    is_kubelet = program == _KUBELET
    make = partial(make_config, is_kubelet=is_kubelet, flags=flags.shown, version=flags.version)
    given = _given(flags, is_kubelet)
    configure_logging(**log_settings(given)._asdict())
    config = make(given)
    for sentence in flags.deprecated() if is_kubelet else ():
        log.warning("%s", sentence)
    tell_what_is_in_vain(given)
    files = ConfigFiles(
        load=lambda: make(_given(flags, is_kubelet)),
        file=flags.given.get("--config", ""),
        folder=flags.given.get("--config-dir", ""),
        is_watched=not is_kubelet,  # Go's reads its file once
    )
    asyncio.run(run_kubelet(config, files))


def _given(flags: Flags, is_kubelet: bool) -> dict[str, Any]:
    """By files and flags. Raises Invalid."""
    from pykubelet.config.agent import eviction_hard
    from pykubelet.config.kubelet_configuration import load_configuration

    file, folder = flags.given.get("--config", ""), flags.given.get("--config-dir", "")
    said = load_configuration(file, folder, eviction_hard=eviction_hard(is_kubelet=is_kubelet))
    given = said | flags.given
    if gates := said.get("featureGates", {}) | flags.given.get("featureGates", {}):
        given["featureGates"] = gates
    return given


def _completed(name: str, takes: str, help: str) -> click.Option:
    kinds = {"FILE": PATH, "PATH": PATH, "": click.BOOL}
    kind = click.Choice(takes.split("|")) if "|" in takes else kinds.get(takes)
    return click.Option([f"--{name}"], type=kind, is_flag=not takes, help=help)


def _help(program: str) -> str:
    formatter = click.HelpFormatter(width=120)
    formatter.write_usage(program, "[OPTIONS]")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(run.help or "")
    with formatter.section("Options"):
        formatter.write_dl(list(described()))
    return formatter.getvalue().rstrip("\n")


def _version(asked: str) -> str:
    import platform

    from pykubelet.pod.node.node_object import KUBELET_VERSION

    if asked == "true":
        return f"Kubernetes {KUBELET_VERSION}"
    major, minor = KUBELET_VERSION.removeprefix("v").split(".")[:2]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    facts = {
        "Major": major,
        "Minor": minor,
        "GitVersion": KUBELET_VERSION,
        "GoVersion": "",
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"linux/{machine}",
    }
    inside = ", ".join(f'{name}:"{value}"' for name, value in facts.items())
    return f"version.Info{{{inside}}}"
