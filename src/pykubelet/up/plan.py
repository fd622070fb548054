"""What `up` and `join` decide before anything is started. What was decided before stays as it was, above all the
runtime, for pods may be on it."""

import asyncio
import errno
import re
import socket
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from pykubelet.api.struct import changed
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.base.errors import Invalid
from pykubelet.host.listeners import listener
from pykubelet.host.machine import LocalMachine
from pykubelet.services.proxier import table_name, why_not
from pykubelet.up.folder import Folder, Plan, Say
from pykubelet.up.runtime_choice import check_runtime, choose_runtime, isolation_of

_API_PORT: Final = 6443
_LONGEST_NAME: Final = 64 - len("system:node:")
"""As a certificate has it, which is for `system:node:` and the name."""
_KUBELET_PORT: Final = 10250
_DNS: Final = 10
"""Which of the addresses of services is the name server's, as everywhere."""


def cluster_plan(
    folder: Folder,
    say: Say,
    manifests: Path | None,
    *,
    runtime: str,
    bind: str,
    port: int,
    controllers: tuple[str, ...] = (),
    services: bool = True,
    images: str = "",
) -> Plan:
    """`port` is the API server's; 0: as before, at first the usual one or another when that is taken. Without
    `controllers`, those of before run, at first all."""
    if controllers:
        from pykubelet.apiserver.controllers.all import check_choice  # few ask for it, and it takes its time to load

        check_choice(controllers)
    plan, before = node_plan(folder, say, made_by="up", runtime=runtime, services=services, images=images)
    address = bind or (before.bind if before else "127.0.0.1")
    wanted = port or (before.api_port if before else _API_PORT)
    return changed(
        plan,
        api_port=_free_port(say, "the API server", address, wanted, is_asked_for=bool(port)),
        manifests=str(manifests.absolute()) if manifests else "",
        bind=address,
        cluster_dns=str(ip_network(ApiSettings().service_range)[_DNS]) if can_serve(folder, plan, say) else "",
        controllers=controllers or (before.controllers if before else ()),
    )


def check_same(
    folder: Folder,
    *,
    manifests: Path | None,
    bind: str,
    port: int,
    controllers: tuple[str, ...] = (),
    refuse_unenforced: bool = False,
    images: str = "",
) -> Plan:
    """The plan of what runs. Raises Invalid when somebody wants it otherwise."""
    plan = folder.plan()
    if plan.made_by != "up":
        raise Invalid(f"{folder.path} was not made by `pykubelet up`; choose another with --data")
    if bind and bind != plan.bind:
        raise Invalid(f"what runs serves on {plan.bind}; stop it first with `pykubelet down`")
    if port and port != plan.api_port:
        raise Invalid(f"what runs serves on port {plan.api_port}; stop it first with `pykubelet down`")
    if controllers and controllers != plan.controllers:
        what = ",".join(plan.controllers) or "*"
        raise Invalid(f"what runs has the controllers {what}; stop it first with `pykubelet down`")
    if refuse_unenforced and not plan.refuse_unenforced:
        raise Invalid("what runs tells of limits that it cannot enforce; stop it first with `pykubelet down`")
    if images and images != plan.images:
        raise Invalid(f"what runs has --images={plan.images}; stop it first with `pykubelet down`")
    running = plan.manifests
    if manifests and running != str(manifests.absolute()):
        what = f"the static pods of {running}" if running else "no static pods"
        raise Invalid(f"what runs has {what}; stop it first with `pykubelet down`")
    return plan


def node_plan(
    folder: Folder,
    say: Say,
    *,
    made_by: str,
    runtime: str,
    node: str = "",
    services: bool = True,
    images: str = "",
) -> tuple[Plan, Plan | None]:
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
        node=before.node if before else node or node_name(socket.gethostname()),
        address=address,
        api_port=before.api_port if before else 0,
        kubelet_port=_free_port(say, "the node", address, before.kubelet_port if before else _KUBELET_PORT),
        runtime=before.runtime if before else runtime,
        services=services,
        images=images or (before.images if before else "auto"),
    )
    return plan, before


def node_name(machine: str) -> str:
    """What a machine can be called in a cluster: a name that a certificate has room for, of the letters of names."""
    return re.sub(r"[^a-z0-9.-]", "-", machine.lower())[:_LONGEST_NAME].strip("-.") or "node"


def can_serve(folder: Folder, plan: Plan, say: Say) -> bool:
    """Whether services can be answered for here; if they should and cannot, that is told."""
    why = why_not(table_name(folder.state)) if plan.services else "nobody wants it"
    if why and plan.services:
        say(f"Services have no addresses that answer here, `kubectl port-forward service/NAME` does: {why}.")
    return not why


def _free_port(say: Say, who: str, address: str, wanted: int, *, is_asked_for: bool = False) -> int:
    """The one that is wanted, or another when that is taken, which is told. Raises Invalid when it was asked for."""
    try:
        return _bound(address, wanted)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Invalid(f"{who} cannot serve at {address}:{wanted}: {error.strerror}") from None
    by = listener(wanted)
    taken = f"port {wanted} is taken" + (f" by {by}" if by else "")
    if is_asked_for:
        raise Invalid(f"{taken}; choose another with --port, or stop what has it")
    port = _bound(address, 0)
    say(f"{taken[0].upper()}{taken[1:]}: {who} serves on port {port}.")
    return port


def _bound(address: str, port: int) -> int:
    """-> the port, which nobody else has now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))
        return int(probe.getsockname()[1])
