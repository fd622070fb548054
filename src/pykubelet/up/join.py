"""`join` and `token`: a node here for an API server that is somewhere else, and how it gets to be known there.

The folder of such a node is marked like that of `up`, so `down` and `reset` work on it. The first certificate is asked
for before the agent starts: whatever is wrong with the token or the way is told to the person who types.
"""

import asyncio
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from pykubelet.api.durations import parse_duration
from pykubelet.api.node import Node
from pykubelet.api.struct import changed
from pykubelet.api.validation import names
from pykubelet.apiserver.security.bootstrap_tokens import NAMESPACE, new_token, token_secret
from pykubelet.apiserver.security.kubeconfig import token_kubeconfig, write_kubeconfig
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
from pykubelet.up.cluster import MARK, Cluster, Plan, Say, agent_command, default_data
from pykubelet.up.supervisor import Part, holder

_KNOWN_SECONDS: Final = 60.0
_SHORTEST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(days=3660)


class _Waiting(Exception):
    """It is for a person to do something, somewhere else."""


class JoinedNode(Cluster):
    made_by: ClassVar[str] = "join"
    logs: ClassVar[tuple[str, ...]] = ("agent",)
    what: ClassVar[str] = "the node"

    def join(self, bootstrap_kubeconfig: str, own_kubeconfig: str, *, node: str = "", runtime: str = "") -> None:
        """Start an agent for an API server, and return when its node is ready there. Harmless when it runs."""
        if holder(self._lock) is not None:
            plan = self._plan()
            if not plan.kubeconfig:
                raise Invalid(f"{self._data} was not made by `pykubelet join`; choose another with --data")
            self._say(f"It is running already (data in {self._data}).")
        else:
            plan = self._claim_node(bootstrap_kubeconfig, own_kubeconfig, node, runtime)
            self._start()
        self._wait(plan)
        self._say(self._how_to_leave(plan))

    def reset(self) -> None:
        node = self._plan().node if self._is_ours() else ""
        super().reset()
        if node:
            self._say(f"The API server still knows the node: `kubectl delete node {node}` takes it from there.")

    def parts(self) -> list[Part]:
        data, plan = self._data, self._plan()
        agent = [*agent_command(data, plan), "--kubeconfig", plan.kubeconfig]
        if self._authority.exists():
            agent += ["--client-ca-file", str(self._authority)]
        if plan.bootstrap:
            agent += ["--bootstrap-kubeconfig", plan.bootstrap, "--rotate-certificates=true"]
        if plan.asks_for_certificate:
            agent += ["--rotate-server-certificates=true"]
        return [Part(name="the node", command=agent, log=str(self._log("agent")))]

    def _has_run(self) -> bool:
        return (self._state / "agent.lock").exists()

    def _wait_to_stop(self, plan: Plan) -> None:
        try:
            self._wait(plan)
        except Invalid as error:  # an API server that is gone for good must not keep anybody from stopping
            self._say(f"{error}; stopping what runs here all the same")

    @property
    def _authority(self) -> Path:
        """Whom the API server's own client certificate is from."""
        return self._data / "ca.crt"

    def _claim_node(self, bootstrap_kubeconfig: str, own_kubeconfig: str, node: str, runtime: str) -> Plan:
        self._check(bootstrap_kubeconfig, own_kubeconfig, node)
        plan, before = self._node_plan(runtime, node)
        if before and node and node != before.node:
            raise Invalid(f"{self._data} is of the node {before.node}; choose another folder with --data")
        own = own_kubeconfig or (before.kubeconfig if before else "")
        first = bootstrap_kubeconfig or ("" if own_kubeconfig or not before else before.bootstrap)
        plan = changed(
            plan,
            kubeconfig=str(Path(own).absolute()) if own and not first else str(self._data / "kubelet.conf"),
            bootstrap=str(Path(first).absolute()) if first else "",
        )
        # Marked before it is known: who has to wait for a person's approval goes on from here.
        self._mark.write_bytes(msgspec.json.encode(plan))
        try:
            # Elsewhere a person has to approve serving certificates, and the API server does without.
            plan = changed(plan, asks_for_certificate=asyncio.run(self._introduced(plan)))
        except Invalid:
            if before is None:
                remove_tree(str(self._data))
            raise
        except _Waiting as error:
            raise Invalid(str(error)) from None
        if authority := _authority(kubeconfig.load(plan.kubeconfig)):
            self._authority.write_bytes(authority)
        self._mark.write_bytes(msgspec.json.encode(plan))
        return plan

    def _check(self, bootstrap_kubeconfig: str, own_kubeconfig: str, node: str) -> None:
        if bootstrap_kubeconfig and own_kubeconfig:
            raise Invalid("give either --bootstrap-kubeconfig or --kubeconfig, not both")
        if not (bootstrap_kubeconfig or own_kubeconfig or self._mark.exists()):
            raise Invalid(
                "say how to reach the API server: with --bootstrap-kubeconfig, a file that `pykubelet token` makes on "
                "its machine, or with --kubeconfig"
            )
        for path in filter(None, (bootstrap_kubeconfig, own_kubeconfig)):
            kubeconfig.load(path)
        for fault in names.dns_subdomain(node) if node else ():
            raise Invalid(f"--node-name {node!r}: {fault}")

    async def _introduced(self, plan: Plan) -> bool:
        """Make sure that the API server knows this node. -> whether it is one of ours. Raises Invalid and _Waiting."""
        settings = ClientSettings(
            kubeconfig=plan.kubeconfig,
            bootstrap_kubeconfig=plan.bootstrap,
            cert_dir=self._state / "pki",
            node_name=plan.node,
        )
        try:
            async with asyncio.timeout(_KNOWN_SECONDS):
                if plan.bootstrap and not await asyncio.to_thread(Path(plan.kubeconfig).exists):
                    await _check_bootstrap(Path(plan.bootstrap))
                if plan.bootstrap and await bootstrap(settings):
                    self._say(f"the API server knows this node now, as {plan.node}")
        except TimeoutError:
            raise _Waiting(
                f"the API server has not given node {plan.node} a certificate within {_KNOWN_SECONDS:g} s: approve its "
                "request there (`kubectl get csr`, `kubectl certificate approve`), and run the same again"
            ) from None
        return await _looked(kubeconfig.load(plan.kubeconfig), plan.node, is_new=not self._has_run())

    def _how_to_leave(self, plan: Plan) -> str:
        ours = "" if self._data == default_data() else f" --data {self._data}"
        return (
            f"Node {plan.node} has joined {kubeconfig.load(plan.kubeconfig).cluster.server}. Next:\n"
            f"  see what runs here      pykubelet pods{ours}\n"
            f"  stop the node           pykubelet down{ours}\n"
            f"  leave for good          pykubelet reset{ours}"
        )


def opened(data: Path, say: Say) -> Cluster:
    """What is in a folder: a cluster, or a node that has joined another one."""
    plan = _plan_in(data)
    return JoinedNode(data, say) if plan and plan.kubeconfig else Cluster(data, say)


def _plan_in(data: Path) -> Plan | None:
    try:
        return msgspec.json.decode((data / MARK).read_bytes(), type=Plan)
    except (OSError, msgspec.DecodeError):
        return None  # what is wrong with it is told by who cannot do without


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


async def _looked(config: ClientConfig, node: str, *, is_new: bool) -> bool:
    """Whether the API server is one of ours. Raises Invalid when the name is another node's."""
    try:
        async with ApiClient(Credentials(config), timeout=10.0) as server:
            version = msgspec.json.decode(await server.request("GET", "/version"))
            try:
                found = await server.get(object_path("nodes", name=node), Node)
            except NotFound:
                found = None
    except PykubeletError as error:
        raise Invalid(f"the API server at {config.cluster.server} cannot be used: {error}") from None
    is_alive = found and any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)
    if is_new and is_alive:
        raise Invalid(f"a node {node} is there already, and ready: choose another name with --node-name")
    return isinstance(version, dict) and str(version.get("goVersion", "")).startswith("python")


def _authority(config: ClientConfig) -> bytes:
    """The authority in a kubeconfig; empty when it names none."""
    cluster = config.cluster
    if not (cluster.certificate_authority_data or cluster.certificate_authority):
        return b""
    return Pem(cluster.certificate_authority_data, cluster.certificate_authority, config.origin).read()


# --- a token for who wants to join


def make_token(data: Path, ttl: timedelta, server: str, output: str, say: Say) -> None:
    """Make a bootstrap token on the API server of a folder, write the kubeconfig that holds it, and say how it is used.

    `server` is the URL that new nodes use, empty: the best guess; `output` a file, `-` for the terminal.
    """
    path = _admin_kubeconfig(data)
    config = kubeconfig.load(str(path))
    url = server or _url(data, config.cluster.server)
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise Invalid(f"--server: must be a URL such as https://10.0.0.1:6443, not {url!r}")
    token, until = new_token(), datetime.now(UTC) + ttl
    secret = token_secret(token, until, "made by pykubelet token")
    asyncio.run(_created(config, secret))
    made = token_kubeconfig(url, _authority(config), token)
    if output == "-":
        say(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
        return
    file = Path(output) if output else data / f"bootstrap-{token[:6]}.kubeconfig"
    write_kubeconfig(file, made)
    say(
        f"{file} lets a node join until {until:%Y-%m-%d %H:%M} UTC. Whoever has it can join: keep it to yourself.\n"
        f"Copy it to the machine of the new node, and there:\n"
        f"  pykubelet join --bootstrap-kubeconfig {file.name}\n"
        f"Take it back before its time with:\n"
        f"  kubectl -n {NAMESPACE} delete secret {secret['metadata']['name']}"
    )
    if _is_loopback(url):
        say(
            f"The API server is at {url}, for nodes of this machine alone. For others: `pykubelet down`, "
            "`pykubelet up --bind-address 0.0.0.0`, and another token."
        )


def _admin_kubeconfig(data: Path) -> Path:
    for path in (data / "kubeconfig", data / "apiserver" / "kubeconfig"):
        if path.exists():
            return path
    raise Invalid(f"there is no API server of ours in {data}: name its folder with --data")


def _url(data: Path, local: str) -> str:
    """By which other machines reach an API server that people of this machine know by its loopback address."""
    plan = _plan_in(data)
    if plan is None or plan.bind not in ("0.0.0.0", "::"):  # noqa: S104
        return local
    host = f"[{plan.address}]" if ":" in plan.address else plan.address
    return urlunsplit(urlsplit(local)._replace(netloc=f"{host}:{plan.api_port}"))


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _created(config: ClientConfig, secret: dict[str, object]) -> None:
    try:
        async with ApiClient(Credentials(config), timeout=10.0) as server:
            await server.request("POST", object_path("secrets", namespace=NAMESPACE), body=secret)
    except PykubeletError as error:
        raise Invalid(f"no token could be made: {error}; is the API server running?") from None


def parsed_ttl(text: str) -> timedelta:
    """`24h`, `30m`, `1h30m`. Raises Invalid."""
    try:
        ttl = timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise Invalid(f"--ttl: must be a time such as 24h or 30m, not {text!r}") from None
    if not _SHORTEST <= ttl <= _LONGEST:
        raise Invalid(f"--ttl: has to be between a minute and ten years, not {text}")
    return ttl
