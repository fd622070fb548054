"""The command line: flags and files to a Config, errors to one line. What takes long to load is loaded when needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from pykubelet import __version__
from pykubelet.base.errors import Invalid
from pykubelet.base.log import configure_logging


class _Refusal(click.ClickException):
    """What was asked cannot be done: one line says why."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        message = self.message.replace("\n", "\\n")  # it may quote what somebody else wrote
        click.echo(f"pykubelet: {message}", file=file, err=file is None)


class _Commands(click.Group):
    """Click tells of a wrong flag in four lines; here it is one, like any other wrong input."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _in_one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_line():
            return super().invoke(ctx)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pykubelet"
        raise _Refusal(f"{error.format_message()} (see {command} --help)") from None
    except Invalid as error:
        raise _Refusal(str(error)) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pykubelet", message="%(prog)s %(version)s")
def main() -> None:
    """A kubelet in Python."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"pykubelet {__version__}")


@main.command()
@click.option("--config", "config_file", metavar="FILE", help="KubeletConfiguration file; flags override it.")
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="How to reach the API server; without it, there is none."
)
@click.option("--hostname-override", default="", metavar="NAME", help="Name of this node instead of the host's name.")
@click.option("--pod-manifest-path", metavar="PATH", help="Manifest file, or folder of them, to run static pods from.")
@click.option("--manifest-url", metavar="URL", help="URL to run static pods from.")
@click.option(
    "--manifest-url-header", multiple=True, metavar="NAME:VALUE", help="Header for --manifest-url; repeatable."
)
@click.option(
    "--file-check-frequency", metavar="DURATION", help="How often to read all manifests again.  [default: 20s]"
)
@click.option("--http-check-frequency", metavar="DURATION", help="How often to ask --manifest-url.  [default: 20s]")
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--v", "verbosity", type=int, default=2, help="Log verbosity; 4 and above show how.  [default: 2]")
def run(
    config_file: str | None,
    kubeconfig: str,
    hostname_override: str,
    manifest_url_header: tuple[str, ...],
    logging_format: str,
    verbosity: int,
    **flags: str | None,
) -> None:
    """Run the node agent until it is told to stop."""
    import asyncio

    from msgspec.structs import replace

    from pykubelet.app import run_agent
    from pykubelet.config import KubeletConfiguration, load_configuration, make_config, parse_header_flags

    configure_logging(verbosity=verbosity, format="json" if logging_format == "json" else "text")
    configuration = load_configuration(config_file) if config_file else KubeletConfiguration()
    given = {
        "static_pod_path": flags["pod_manifest_path"],
        "static_pod_url": flags["manifest_url"],
        "static_pod_url_header": parse_header_flags(manifest_url_header) or None,
        "file_check_frequency": flags["file_check_frequency"],
        "http_check_frequency": flags["http_check_frequency"],
    }
    configuration = replace(configuration, **{k: value for k, value in given.items() if value is not None})
    config = make_config(configuration, hostname_override=hostname_override, kubeconfig=kubeconfig)
    asyncio.run(run_agent(config))
