"""What `up` and `join` decide before anything is started. What was decided before stays as it was, above all the
runtime, for pods may be on it."""

import asyncio
import socket
from pathlib import Path

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.host.machine import LocalMachine
from pykubelet.up.folder import Folder, Plan, Say
from pykubelet.up.runtime_choice import check_runtime, choose_runtime, isolation_of


def cluster_plan(folder: Folder, say: Say, *, manifests: Path | None, runtime: str, bind: str) -> Plan:
    plan, before = node_plan(folder, say, made_by="up", runtime=runtime)
    address = bind or (before.bind if before else "127.0.0.1")
    return changed(
        plan,
        api_port=_free_port(address, before.api_port if before else 6443),
        manifests=str(manifests.absolute()) if manifests else "",
        bind=address,
    )


def check_same(folder: Folder, *, manifests: Path | None, bind: str) -> Plan:
    """The plan of what runs. Raises Invalid when somebody wants it otherwise."""
    plan = folder.plan()
    if plan.made_by != "up":
        raise Invalid(f"{folder.path} was not made by `pykubelet up`; choose another with --data")
    if bind and bind != plan.bind:
        raise Invalid(f"what runs serves on {plan.bind}; stop it first with `pykubelet down`")
    running = plan.manifests
    if manifests and running != str(manifests.absolute()):
        what = f"the static pods of {running}" if running else "no static pods"
        raise Invalid(f"what runs has {what}; stop it first with `pykubelet down`")
    return plan


def node_plan(folder: Folder, say: Say, *, made_by: str, runtime: str, node: str = "") -> tuple[Plan, Plan | None]:
    """What concerns the node, and the whole of what was decided before."""
    command = f"`pykubelet {made_by}`"
    if not folder.is_empty() and not folder.mark.exists():
        raise Invalid(f"{folder.path} is not empty and was not made by {command}; choose another with --data")
    before = folder.plan() if folder.mark.exists() else None
    if before and before.made_by != made_by:
        raise Invalid(f"{folder.path} was not made by {command}; choose another with --data")
    if before and runtime and runtime != before.runtime:
        raise Invalid(f"the pods of {folder.path} are on the runtime {before.runtime}; first run `pykubelet reset`")
    if runtime and not before and (why := check_runtime(runtime, folder.path)):
        say(why)
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (before or runtime):
        choice = choose_runtime(folder.path)
        say(choice.why)
        runtime = choice.endpoint
    folder.path.chmod(0o700)  # whoever made it: it holds keys
    if isolation := isolation_of(before.runtime if before else runtime, folder.path):
        say(isolation)
    facts = asyncio.run(LocalMachine(str(folder.path)).facts())
    address = facts.ips[0] if facts.ips else "127.0.0.1"
    plan = Plan(
        node=before.node if before else node or socket.gethostname().lower(),
        address=address,
        api_port=before.api_port if before else 0,
        kubelet_port=_free_port(address, before.kubelet_port if before else 10250),
        runtime=before.runtime if before else runtime,
    )
    return plan, before


def _free_port(address: str, wanted: int) -> int:
    """The one that is wanted, or another when that is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in (wanted, 0):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Invalid(f"there is no free port on {address}; is it an address of this machine?")
