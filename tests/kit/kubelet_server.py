"""What the kubelet's HTTP API stands on, as simple as can be: an agent that has nothing to say, and nobody refused."""

from collections.abc import Sequence

from pykubelet.api.pod import Pod
from pykubelet.pod.ports.server import Decision, Identity


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
