"""The kubelet's HTTP API on its own: an agent that has little to say, nobody is refused, and a client."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import aiohttp

from pykubelet.api.pod import Pod
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server.application import Route, application
from pykubelet.web.serving import serving


class OpenToAll:
    """Authentication and authorization that let everybody in."""

    async def identify(self, _: object) -> Identity | None:
        return Identity(name="anybody")

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        return Decision(allowed=True)


class Inside:
    """The agent with these pods, none of which has a sandbox."""

    node_name = "n1"

    def __init__(self, *pods: Pod) -> None:
        self.known = pods

    def pods(self) -> Sequence[Pod]:
        return self.known

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        for pod in self.known:
            meta = pod.metadata
            if (meta.namespace, meta.name) == (namespace, name) and uid in ("", meta.uid):
                return pod
        return None

    def sandbox_id(self, uid: str) -> str:
        return ""

    def lateness(self) -> float:
        return 0.0


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(path, allow_redirects=False) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def client(routes: Iterable[Route]) -> AsyncIterator[Client]:
    """Of a server that has these routes."""
    async with (
        serving(application(routes, OpenToAll()), "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield Client(session)
