"""The folder of `up` and `join`: all that they have is in it. It is marked as ours when it is made, and only what is
ours is ever removed."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from pykubelet.base.errors import Invalid, Retry
from pykubelet.server.control_socket import ask

_MARK: Final = ".pykubelet"

Say = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` or `join` has decided: the mark of the folder, and all that the parts need to know."""

    node: str
    address: str
    api_port: int
    kubelet_port: int
    runtime: str
    images: str = "auto"
    """Where the embedded runtime has images from that are not here."""
    manifests: str = ""
    bind: str = "127.0.0.1"
    """Where the API server serves."""
    controllers: tuple[str, ...] = ()
    """Which run, in the words of the flag; empty: all."""
    kubeconfig: str = ""
    """Of a node alone, which has joined an API server somewhere else: how it reaches that."""
    bootstrap: str = ""
    """How such a node gets that kubeconfig."""
    refuse_unenforced: bool = False
    """Whether its node refuses pods whose limits it cannot enforce."""
    keep_secrets: bool = False
    """Whether secrets of its pods may lie on its disk, for a start without the API server."""
    services: bool = False
    """Whether the node answers for services."""
    cluster_dns: str = ""
    """The name server that pods are told of."""
    asks_for_certificate: bool = False
    """Whether its serving certificate comes from the API server, too."""

    @property
    def made_by(self) -> str:
        return "join" if self.kubeconfig else "up"


class Invitation(msgspec.Struct, frozen=True):
    """A link that lets one browser in, once."""

    url: str
    seconds: float
    fingerprint: str


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.state = self.path / "state"
        """Of the agent."""
        self.lock = self.path / "up.lock"
        """Held by whoever keeps the parts."""
        self.apiserver = self.path / "apiserver"
        self.volumes = self.path / "volumes"
        """What claims are made as."""
        self.admin_kubeconfig = self.path / "kubeconfig"
        self.node_kubeconfig = self.path / "kubelet.conf"
        self.client_ca = self.path / "ca.crt"
        """Of a node alone: whom the API server's own client certificate is from."""
        self.mark = self.path / _MARK

    @property
    def flag(self) -> str:
        """What has to be added to commands for them to mean this folder."""
        return "" if self.path == default_folder() else f" --data {quote(str(self.path))}"

    def is_empty(self) -> bool:
        return not self.path.exists() or not any(self.path.iterdir())

    def is_ours(self) -> bool:
        """Raises Invalid when it is somebody else's."""
        if self.is_empty():
            return False
        if not self.mark.exists():
            raise Invalid(f"{self.path} was not made by `pykubelet up`; nothing in it was touched")
        return True

    def has_run(self) -> bool:
        """Whether there was ever an agent that may have started pods."""
        return (self.state / "agent.lock").exists()

    def plan(self) -> Plan:
        """Raises Invalid when there is none that can be read."""
        if plan := self.read_plan():
            return plan
        raise Invalid(f"{self.mark} cannot be read; was it made by another version? Remove {self.path}")

    def read_plan(self) -> Plan | None:
        """None, too, for one that cannot be read: what is wrong with it is told by who cannot do without."""
        try:
            return msgspec.json.decode(self.mark.read_bytes(), type=Plan)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, plan: Plan) -> Plan:
        self.mark.write_bytes(msgspec.json.encode(plan))
        return plan

    def log(self, part: str) -> Path:
        return self.path / f"{part}.log"

    def pods(self) -> list[dict[str, Any]]:
        """What runs here now; nothing while no agent does."""
        try:
            return asked_pods(self.state)
        except Retry:
            return []


def default_folder() -> Path:
    """Where `up` keeps what it has, unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/pykubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "pykubelet"


def invitation(state: Path) -> Invitation:
    """A link to the page of the agent with that state. Raises Retry when there is no agent, or it has no page."""
    answer = asyncio.run(ask(state / "pykubelet.sock", "page"))
    if "url" not in answer:
        raise Retry("the agent has no page: it was started without its server, or without debugging handlers")
    return msgspec.convert(answer, Invitation)


def asked_pods(state: Path) -> list[dict[str, Any]]:
    """The pods of the agent with that state. Raises Retry when there is none."""
    answer = asyncio.run(ask(state / "pykubelet.sock", "pods"))
    return list(answer.get("items") or [])


def called() -> str:
    """What a person types to call this again: the name alone, if a shell finds it by that; else as it was typed."""
    name = os.path.basename(sys.argv[0])
    if name == "__main__.py":
        return f"{quote(sys.executable)} -m pykubelet"
    found = shutil.which(name)
    if found is not None and os.path.realpath(found) == os.path.realpath(sys.argv[0]):
        return quote(name)
    return quote(sys.argv[0])
