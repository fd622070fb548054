"""`join` and `token`: a node of this machine for an API server somewhere else, and the other way round."""

import click

from pykubelet.cli.common import (
    PATH,
    data_option,
    folder,
    images_option,
    quiet_option,
    saying,
    services_option,
)


@click.command()
@data_option
@click.option("--bootstrap-kubeconfig", default="", type=PATH, metavar="FILE", help="What `pykubelet token` has made.")
@click.option("--kubeconfig", default="", type=PATH, metavar="FILE", help="Of a node that is known already.")
@click.option("--node-name", default="", metavar="NAME", help="Name of this node instead of the host's name.")
@click.option("--container-runtime-endpoint", default="", metavar="URL", help="The runtime [the best there is].")
@services_option
@images_option
@click.option(
    "--keep-secrets", is_flag=True, help="Keep secrets of pods on disk, to run them when the API server is away."
)
@quiet_option
def join(
    data: str | None,
    bootstrap_kubeconfig: str,
    kubeconfig: str,
    node_name: str,
    container_runtime_endpoint: str,
    services: bool,
    images: str | None,
    keep_secrets: bool,
    quiet: bool,
) -> None:
    """Start a node here for an API server somewhere else.

    Returns when the node is ready."""
    from pykubelet.up import join as joining

    ours = folder(data)
    credential = joining.Credential(bootstrap_kubeconfig=bootstrap_kubeconfig, kubeconfig=kubeconfig)
    more = ours.flag
    with saying(quiet) as say:
        plan = joining.join(
            ours,
            say,
            credential,
            node=node_name,
            runtime=container_runtime_endpoint,
            services=services,
            images=images or "",
            keep_secrets=keep_secrets,
        )
        say(
            f"Node {plan.node} has joined {joining.api_url(plan)}. Next:\n"
            f"  see what runs here      pykubelet pods{more}\n"
            f"  stop the node           pykubelet down{more}\n"
            f"  leave for good          pykubelet reset{more}"
        )


@click.command()
@click.option(
    "--data", "--data-dir", "data", type=PATH, metavar="PATH", help="The API server's folder.  [default: as for `up`]"
)
@click.option("--ttl", default="24h", show_default=True, metavar="TIME", help="For how long it lets nodes join.")
@click.option("--server", default="", metavar="URL", help="Where new nodes find the API server [as we know it].")
@click.option(
    "-o", "--output", default="", type=PATH, metavar="FILE", help="Where to write it, - to print it [in the data]."
)
def token(data: str | None, ttl: str, server: str, output: str) -> None:
    """Make a file with which a new node can join this cluster."""
    import json
    from pathlib import Path
    from shlex import quote

    from pykubelet.apiserver.security.kubeconfig import write_kubeconfig
    from pykubelet.up.token import make_token, parsed_ttl

    ours = folder(data)
    made = make_token(ours, parsed_ttl(ttl), server)
    if output == "-":
        click.echo(json.dumps(made.kubeconfig, indent=2))
        return
    file = Path(output) if output else ours.path / f"bootstrap-{made.id}.kubeconfig"
    write_kubeconfig(file, made.kubeconfig)
    click.echo(
        f"{file} lets a node join until {made.until:%Y-%m-%d %H:%M} UTC. "
        f"Whoever has it can join: keep it to yourself.\n"
        f"Copy it to the machine of the new node, and there:\n"
        f"  pykubelet join --bootstrap-kubeconfig {quote(file.name)}\n"
        f"Take it back before its time with:\n"
        f"  kubectl -n {made.namespace} delete secret {made.secret}"
    )
    if made.is_for_this_machine:
        click.echo(
            f"The API server is at {made.url}, for nodes of this machine alone. For others: `pykubelet down`, "
            "`pykubelet up --bind-address 0.0.0.0`, and another token."
        )
