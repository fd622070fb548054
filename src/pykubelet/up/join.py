"""`join`: a node here for an API server that is somewhere else, and how it gets to be known there.

The first certificate is asked for before the agent starts: whatever is wrong with the token or the way is told to the
person who types.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.api.node import Node
from pykubelet.api.services import Service
from pykubelet.api.struct import changed
from pykubelet.api.validation import names
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.host.removal import remove_tree
from pykubelet.kube import kubeconfig
from pykubelet.kube.bootstrap import bootstrap
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.errors import Forbidden, Unauthorized, Untrusted
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.kube.settings import ClientSettings
from pykubelet.kube.tls import Pem
from pykubelet.up.folder import Folder, Plan, Say
from pykubelet.up.installation import Installation
from pykubelet.up.plan import can_serve, node_plan

_KNOWN_SECONDS: Final = 60.0


class _Waiting(Exception):
    """It is for a person to do something, somewhere else."""


class _Server(msgspec.Struct, frozen=True):
    is_ours: bool
    """An API server of this program."""
    cluster_dns: str


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """How a node reaches its API server: one of the two, or neither for a folder that knows it."""

    bootstrap_kubeconfig: str = ""
    kubeconfig: str = ""


def join(
    folder: Folder,
    say: Say,
    credential: Credential,
    *,
    node: str = "",
    runtime: str = "",
    services: bool = True,
    images: str = "",
    keep_secrets: bool = False,
) -> Plan:
    """Start an agent for an API server, and return when its node is ready there. Harmless when it runs."""
    installation = Installation(folder, say)
    if installation.is_running:
        plan = folder.plan()
        if plan.made_by != "join":
            raise Invalid(f"{folder.path} was not made by `pykubelet join`; choose another with --data")
        if keep_secrets and not plan.keep_secrets:
            raise Invalid("what runs keeps no secrets; stop it first with `pykubelet down`")
        say(f"It is running already (data in {folder.path}).")
    else:
        decided = partial(node_plan, folder, say, made_by="join", runtime=runtime, services=services, images=images)
        plan = _claim(folder, say, credential, node, decided)
        plan = folder.save(changed(plan, keep_secrets=keep_secrets))
        installation.start(plan)
    installation.wait(plan)
    return plan


def api_url(plan: Plan) -> str:
    """Of the API server that a node has joined."""
    return kubeconfig.load(plan.kubeconfig).cluster.server


def authority(config: ClientConfig) -> bytes:
    """The authority in a kubeconfig; empty when it names none."""
    cluster = config.cluster
    if not (cluster.certificate_authority_data or cluster.certificate_authority):
        return b""
    return Pem(cluster.certificate_authority_data, cluster.certificate_authority, config.origin).read()


def _claim(
    folder: Folder, say: Say, credential: Credential, node: str, decided: Callable[..., tuple[Plan, Plan | None]]
) -> Plan:
    _check(folder, credential, node)
    plan, before = decided(node=node)
    if before and node and node != before.node:
        raise Invalid(f"{folder.path} is of the node {before.node}; choose another folder with --data")
    own = credential.kubeconfig or (before.kubeconfig if before else "")
    first = credential.bootstrap_kubeconfig or ("" if credential.kubeconfig or not before else before.bootstrap)
    plan = changed(
        plan,
        kubeconfig=str(Path(own).absolute()) if own and not first else str(folder.node_kubeconfig),
        bootstrap=str(Path(first).absolute()) if first else "",
    )
    folder.save(plan)  # before it is known: who has to wait for a person's approval goes on from here
    try:
        there = asyncio.run(_introduce(folder, plan, say))
        # Elsewhere a person has to approve serving certificates, and the API server does without; and others see to
        # services.
        plan = changed(plan, asks_for_certificate=there.is_ours, services=plan.services and there.is_ours)
        plan = changed(plan, cluster_dns=there.cluster_dns if can_serve(folder, plan, say) else "")
    except Invalid:
        if before is None:
            remove_tree(str(folder.path))
        raise
    except _Waiting as error:
        raise Invalid(str(error)) from None
    if pem := authority(kubeconfig.load(plan.kubeconfig)):
        folder.client_ca.write_bytes(pem)
    return folder.save(plan)


def _check(folder: Folder, credential: Credential, node: str) -> None:
    if credential.bootstrap_kubeconfig and credential.kubeconfig:
        raise Invalid("give either --bootstrap-kubeconfig or --kubeconfig, not both")
    given = credential.bootstrap_kubeconfig or credential.kubeconfig
    if not (given or folder.mark.exists()):
        raise Invalid(
            "say how to reach the API server: with --bootstrap-kubeconfig, a file that `pykubelet token` makes on "
            "its machine, or with --kubeconfig"
        )
    if given:
        kubeconfig.load(given)
    for fault in names.dns_subdomain(node) if node else ():
        raise Invalid(f"--node-name {node!r}: {fault}")


async def _introduce(folder: Folder, plan: Plan, say: Say) -> "_Server":
    """Make sure that the API server knows this node. Raises Invalid and _Waiting."""
    settings = ClientSettings(
        kubeconfig=plan.kubeconfig,
        bootstrap_kubeconfig=plan.bootstrap,
        cert_dir=folder.state / "pki",
        node_name=plan.node,
    )
    try:
        async with asyncio.timeout(_KNOWN_SECONDS):
            if plan.bootstrap and not await asyncio.to_thread(Path(plan.kubeconfig).exists):
                await _check_bootstrap(Path(plan.bootstrap))
            if plan.bootstrap and await bootstrap(settings):
                say(f"the API server knows this node now, as {plan.node}")
    except TimeoutError:
        raise _Waiting(
            f"the API server has not given node {plan.node} a certificate within {_KNOWN_SECONDS:g} s: approve its "
            "request there (`kubectl get csr`, `kubectl certificate approve`), and run the same again"
        ) from None
    return await _look(kubeconfig.load(plan.kubeconfig), plan.node, is_new=not folder.has_run())


async def _check_bootstrap(path: Path) -> None:
    """One look with the credentials of the file, for a fault that no waiting cures."""
    config = kubeconfig.load(str(path))
    try:
        async with ApiClient(Credentials(config), timeout=10.0) as server:
            await server.request("GET", "/api")
    except Forbidden:
        pass  # then it is known who asks
    except Unauthorized:
        raise Invalid(
            f"{config.cluster.server} does not accept the token of {path}: it has expired, perhaps; `pykubelet token` "
            "makes another on the machine of the API server"
        ) from None
    except Untrusted as error:
        raise Invalid(f"{path}: {error}; the certificate authority in the file is of another server") from None
    except PykubeletError as error:
        raise Invalid(f"the API server at {config.cluster.server} cannot be reached: {error}") from None


async def _look(config: ClientConfig, node: str, *, is_new: bool) -> "_Server":
    """Raises Invalid when the name is another node's."""
    try:
        async with ApiClient(Credentials(config), timeout=10.0) as server:
            version = msgspec.json.decode(await server.request("GET", "/version"))
            try:
                found = await server.get(object_path("nodes", name=node), Node)
            except NotFound:
                found = None
            try:
                dns = await server.get(object_path("services", namespace="kube-system", name="kube-dns"), Service)
            except NotFound:
                dns = Service()
    except PykubeletError as error:
        raise Invalid(f"the API server at {config.cluster.server} cannot be used: {error}") from None
    is_alive = found and any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)
    if is_new and is_alive:
        raise Invalid(f"a node {node} is there already, and ready: choose another name with --node-name")
    is_ours = isinstance(version, dict) and str(version.get("goVersion", "")).startswith("python")
    return _Server(is_ours, dns.spec.cluster_ip)
