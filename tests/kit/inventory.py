"""All that a containerd holds, by the books of each of its parts, and where the books do not agree."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from msgspec import Struct

from kit.containerd import Containerd
from pykubelet.runtime.cri._gen import cri_pb2 as cri

Reply = TypeVar("Reply", bound=Message)


class Inventory(Struct, frozen=True, kw_only=True):
    sandboxes: dict[str, tuple[str, bool]]
    """By id: the pod's uid, and whether it is ready."""
    containers: dict[str, tuple[str, bool]]
    """By id: the pod's uid, and whether it runs."""
    records: frozenset[str]
    """What containerd itself calls containers: sandboxes, too."""
    tasks: frozenset[str]
    snapshots: frozenset[str]
    addresses: tuple[str, ...]
    """The sandboxes that have one."""
    networks: int
    """Network namespaces that are kept by a mount."""

    def running(self, uid: str) -> list[str]:
        return [key for key, (owner, runs) in self.containers.items() if owner == uid and runs]

    def uids(self) -> set[str]:
        return {uid for uid, _ in (*self.sandboxes.values(), *self.containers.values())}

    def disagreements(self, before: "Inventory") -> Iterator[str]:
        """What is there that nothing else speaks for, or the other way round."""
        known = {*self.sandboxes, *self.containers}
        alive = {key for key, (_, lives) in (*self.sandboxes.items(), *self.containers.items()) if lives}
        ready = {key for key, (_, is_ready) in self.sandboxes.items() if is_ready}
        for what, found, wanted in (
            ("records", self.records - before.records, known - before.records),
            ("tasks", self.tasks - before.tasks, alive - before.tasks),
            ("snapshots", self.snapshots - before.snapshots, known - before.snapshots),
            ("addresses", {*self.addresses} - {*before.addresses}, ready - {*before.addresses}),
        ):
            if found != wanted:
                yield f"{what}: too many: {sorted(found - wanted)}, missing: {sorted(wanted - found)}"
        if len(self.addresses) != len({*self.addresses}):
            yield "a sandbox has two addresses"
        if self.networks != len(ready):
            yield f"networks: {self.networks} for {len(ready)} sandboxes"


def inventory(containerd: Containerd) -> Inventory:
    sandboxes = _answer(containerd, "ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse).items
    containers = _answer(
        containerd, "ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse
    ).containers
    uids = {each.id: each.metadata.uid for each in sandboxes}
    lines = containerd.ctr("snapshots", "ls").splitlines()[1:]
    return Inventory(
        sandboxes={each.id: (each.metadata.uid, each.state == cri.SANDBOX_READY) for each in sandboxes},
        containers={
            each.id: (uids.get(each.pod_sandbox_id, ""), each.state == cri.CONTAINER_RUNNING) for each in containers
        },
        records=frozenset(containerd.ctr("containers", "ls", "-q").split()),
        tasks=frozenset(containerd.ctr("tasks", "ls", "-q").split()),
        snapshots=frozenset(line.split()[0] for line in lines),
        addresses=_addresses(containerd.root / "ipam"),
        networks=sum(path.startswith(f"{containerd.root}/") and "/netns/" in path for path in _mounted()),
    )


def take_away_pods(containerd: Containerd, before: Inventory) -> None:
    """Those that came after `before`: of a test that failed, they must not be in the way of the next one."""
    for key in inventory(containerd).sandboxes.keys() - before.sandboxes.keys():
        stop, remove = cri.StopPodSandboxRequest(pod_sandbox_id=key), cri.RemovePodSandboxRequest(pod_sandbox_id=key)
        with suppress(grpc.RpcError):
            _answer(containerd, "StopPodSandbox", stop, cri.StopPodSandboxResponse)
        with suppress(grpc.RpcError):
            _answer(containerd, "RemovePodSandbox", remove, cri.RemovePodSandboxResponse)


def _addresses(folder: Path) -> tuple[str, ...]:
    """The network plug-in keeps a file for each address, which names its sandbox."""
    found = []
    for path in folder.glob("*/*"):
        if path.name[0].isdecimal():
            with suppress(FileNotFoundError):  # given back in this moment
                found += path.read_text().split()[:1]
    return tuple(sorted(found))


def _mounted() -> list[str]:
    return [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]


def _answer(containerd: Containerd, method: str, request: Message, reply: type[Reply]) -> Reply:
    with grpc.insecure_channel(containerd.endpoint, options=[("grpc.default_authority", "localhost")]) as channel:
        ask: Callable[..., Reply] = channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return ask(request, timeout=60)
