"""`restart`: one container of a pod starts anew, in place."""

import click

from pykubelet.base.errors import Invalid, Retry
from pykubelet.cli.common import PATH, data_option, folder


@click.command()
@click.argument("pod")
@click.option("-c", "--container", default="", metavar="NAME", help="Which one, where there are several.")
@click.option("-n", "--namespace", default="default", metavar="NAMESPACE", show_default=True)
@data_option
@click.option("--root-dir", type=PATH, metavar="PATH", help="The state of an agent that was started with `run`.")
def restart(pod: str, container: str, namespace: str, data: str | None, root_dir: str | None) -> None:
    """Restart one container of a POD that runs here: it is stopped with the pod's grace, and started at once. The pod
    stays where it is, and so does all else of it. One that waits because it keeps failing is started now."""
    import asyncio
    from pathlib import Path

    from pykubelet.server.control_socket import ask

    if any(each.split() != [each] for each in (namespace, pod)) or len(container.split()) > 1:
        raise Invalid("a name is one word")
    state = Path(root_dir) if root_dir else folder(data).state
    answer = asyncio.run(ask(state / "pykubelet.sock", f"restart {namespace} {pod} {container}".rstrip()))
    if "error" in answer:
        raise Retry(answer["error"]) if answer.get("kind") == "Retry" else Invalid(answer["error"])
    click.echo(f"{answer['container']} of {namespace}/{pod} is being restarted")
