"""The command line: flags and files to a Config, errors to one line. What takes long to load is loaded when needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from pykubelet import __version__
from pykubelet.base.errors import Invalid
from pykubelet.base.log import configure_logging
from pykubelet.config import flags

if TYPE_CHECKING:
    from pykubelet.up.cluster import Cluster


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
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--v", "verbosity", type=int, default=2, help="Log verbosity; 4 and above show how [2].")
@flags.options
def run(config_file: str | None, logging_format: str, verbosity: int, **texts: Any) -> None:
    """Run the node agent until it is told to stop. Pods go on running without it."""
    import asyncio

    from pykubelet.app.app import run_agent
    from pykubelet.config.agent import make_config
    from pykubelet.config.kubelet_configuration import load_configuration

    configure_logging(verbosity=verbosity, format="json" if logging_format == "json" else "text")
    said = load_configuration(config_file) if config_file else {}
    asyncio.run(run_agent(make_config(said | flags.given(texts), flags=flags.shown(texts))))


@main.command()
@click.option("--data-dir", metavar="PATH", help="Where its state, keys and kubeconfig are [as for `up`].")
@click.option("--kubeconfig", default="", metavar="FILE", help="Where to write the administrator's [in the data].")
@click.option("--bind-address", default="127.0.0.1", show_default=True, metavar="IP", help="Where to serve.")
@click.option("--port", type=click.IntRange(1, 65535), default=6443, show_default=True)
@click.option("--tls-san", "names", multiple=True, metavar="NAME", help="Another name that clients use; repeatable.")
@click.option("--store", type=click.Choice(["sqlite", "memory", "etcd"]), default="sqlite", show_default=True)
@click.option("--etcd-servers", default="", metavar="URL[,URL]", help="Where etcd is, with --store=etcd.")
@click.option("--etcd-cafile", default="", metavar="FILE", help="Whose certificate etcd has.")
@click.option("--etcd-certfile", default="", metavar="FILE", help="By which etcd knows us.")
@click.option("--etcd-keyfile", default="", metavar="FILE", help="Its key.")
@click.option("--import-from", default="", metavar="FILE", help="A state.db whose objects go into the store first.")
@click.option("--no-scheduler", is_flag=True, help="Leave it to others to bind pods to nodes.")
@click.option("--insecure-kubelets", is_flag=True, help="Believe kubelets without a certificate of ours.")
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--v", "verbosity", type=int, default=2, help="Log verbosity; 4 and above show how [2].")
def apiserver(
    data_dir: str | None,
    names: tuple[str, ...],
    etcd_servers: str,
    no_scheduler: bool,
    logging_format: str,
    verbosity: int,
    **given: Any,
) -> None:
    """Run the embedded API server alone, until it is told to stop."""
    import asyncio
    from pathlib import Path

    from pykubelet.app.apiserver import run_apiserver
    from pykubelet.config.apiserver import ApiServerConfig
    from pykubelet.up.cluster import default_data

    configure_logging(verbosity=verbosity, format="json" if logging_format == "json" else "text")
    data = Path(data_dir).absolute() if data_dir else default_data() / "apiserver"
    config = ApiServerConfig(
        data=data,
        kubeconfig=Path(given["kubeconfig"]).absolute() if given["kubeconfig"] else data / "kubeconfig",
        address=given["bind_address"],
        port=given["port"],
        names=names,
        store=given["store"],
        etcd_servers=tuple(filter(None, (part.strip() for part in etcd_servers.split(",")))),
        etcd_ca=given["etcd_cafile"],
        etcd_certificate=given["etcd_certfile"],
        etcd_key=given["etcd_keyfile"],
        import_from=Path(given["import_from"]).absolute() if given["import_from"] else None,
        scheduler=not no_scheduler,
        insecure_kubelets=given["insecure_kubelets"],
    )
    asyncio.run(run_apiserver(config))


_DATA = click.option(
    "--data", metavar="PATH", help="The agent's folder.  [default: /var/lib/pykubelet, or the user's own]"
)


@main.command()
@click.argument("manifests", default="", metavar="[MANIFESTS]")
@_DATA
@click.option("--container-runtime-endpoint", default="", metavar="URL", help="The runtime [the best there is].")
@click.option(
    "--merge-kubeconfig", default="", metavar="FILE", help="A kubeconfig of yours that gets the cluster added."
)
@click.option(
    "--bind-address", default="", metavar="IP", help="Where the API server serves; 0.0.0.0: for others [127.0.0.1]."
)
@click.option("--foreground", is_flag=True, help="Stay, and show a live table of the pods.")
def up(
    manifests: str,
    data: str | None,
    container_runtime_endpoint: str,
    merge_kubeconfig: str,
    bind_address: str,
    foreground: bool,
) -> None:
    """Start an API server and a node on this machine, and return when they are ready. MANIFESTS are static pods."""
    from pathlib import Path

    from pykubelet.up.cluster import Cluster, default_data

    folder = Path(manifests) if manifests else None
    Cluster(Path(data) if data else default_data(), click.echo).up(
        folder,
        runtime=container_runtime_endpoint,
        merge=merge_kubeconfig,
        foreground=foreground,
        bind=bind_address,
    )


@main.command()
@_DATA
@click.option("--bootstrap-kubeconfig", default="", metavar="FILE", help="What `pykubelet token` has made.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Of a node that is known already.")
@click.option("--node-name", default="", metavar="NAME", help="Name of this node instead of the host's name.")
@click.option("--container-runtime-endpoint", default="", metavar="URL", help="The runtime [the best there is].")
def join(
    data: str | None, bootstrap_kubeconfig: str, kubeconfig: str, node_name: str, container_runtime_endpoint: str
) -> None:
    """Start a node on this machine for an API server somewhere else, and return when it is ready."""
    from pathlib import Path

    from pykubelet.up.cluster import default_data
    from pykubelet.up.join import JoinedNode

    node = JoinedNode(Path(data) if data else default_data(), click.echo)
    node.join(bootstrap_kubeconfig, kubeconfig, node=node_name, runtime=container_runtime_endpoint)


@main.command()
@click.option("--data", metavar="PATH", help="The API server's folder.  [default: as for `up`]")
@click.option("--ttl", default="24h", show_default=True, metavar="TIME", help="For how long it lets nodes join.")
@click.option("--server", default="", metavar="URL", help="Where new nodes find the API server [as we know it].")
@click.option("-o", "--output", default="", metavar="FILE", help="Where to write it, - to print it [in the data].")
def token(data: str | None, ttl: str, server: str, output: str) -> None:
    """Make a file with which a new node can `join` the API server of this machine."""
    from pathlib import Path

    from pykubelet.up.cluster import default_data
    from pykubelet.up.join import make_token, parsed_ttl

    make_token(Path(data) if data else default_data(), parsed_ttl(ttl), server, output, click.echo)


@main.command()
@_DATA
def down(data: str | None) -> None:
    """Stop what `up` or `join` has started, pods and all; what the API server knows is kept."""
    _cluster(data).down()


@main.command()
@_DATA
def reset(data: str | None) -> None:
    """Stop what `up` or `join` has started, and remove all that it made."""
    _cluster(data).reset()


@main.command(hidden=True)
@click.option("--data", required=True, metavar="PATH")
def supervise(data: str) -> None:
    """Keep the parts of `up` and `join` running."""
    import asyncio
    from pathlib import Path

    from pykubelet.up.supervisor import PARTS, keep, read_parts

    configure_logging(verbosity=2)
    asyncio.run(keep(read_parts(Path(data) / PARTS), Path(data) / "up.lock"))


@main.command()
@_DATA
@click.option("--root-dir", metavar="PATH", help="The state of an agent that was started with `run`.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def pods(data: str | None, root_dir: str | None, output: str) -> None:
    """Show the pods of the agent that runs here."""
    from pathlib import Path

    from pykubelet.base.errors import Retry
    from pykubelet.up.cluster import asked_pods, default_data
    from pykubelet.up.show import pod_table

    folder = Path(root_dir) if root_dir else Path(data or default_data()) / "state"
    try:
        found = asked_pods(folder / "pykubelet.sock")
    except Retry as error:
        raise Invalid(f"{error}; start one with `pykubelet up`, or name its folder with --root-dir") from None
    if output == "json":
        import json

        click.echo(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": found}, indent=2))
    else:
        click.echo(pod_table(found))


def _cluster(data: str | None) -> "Cluster":
    from pathlib import Path

    from pykubelet.up.cluster import default_data
    from pykubelet.up.join import opened

    return opened(Path(data) if data else default_data(), click.echo)
