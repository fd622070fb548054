"""How many volumes of a driver a node can have, and how many it has. Pure, by upstream's rules."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.storage_classes import class_of

EXCEEDED = "node(s) exceed max volume count"

Claims = Mapping[tuple[str, str], Object]
Key = tuple[str, str]
"""namespace, name"""
Volume = tuple[str, str]
"""driver, handle"""


class PodClaims(Struct, frozen=True):
    """A pod, and the claims that it keeps others from: none when it has ended, or has no node."""

    key: Key
    node: str
    names: tuple[str, ...]


class NodeVolumes(Struct, frozen=True):
    """What a node can have, by driver, and has."""

    most: Mapping[str, int]
    held: Mapping[Volume, frozenset[Key]]
    """With the pods that use each."""
    attached: frozenset[Volume]

    def has_room(self, wanted: Iterable[Volume], leaving: Collection[Key] = ()) -> bool:
        """`leaving`: pods that are thought away. What they have attached still is."""
        there = {volume for volume, pods in self.held.items() if any(pod not in leaving for pod in pods)}
        new = Counter(driver for driver, _ in {*wanted} - there)
        taken = Counter(driver for driver, _ in there | self.attached)
        return all(
            taken[driver] + count <= self.most.get(driver, taken[driver] + count) for driver, count in new.items()
        )


def driver_volume(claim: Object, volumes: Mapping[str, Object], classes: Mapping[str, Object]) -> Volume | None:
    """The volume behind a claim, or the one that will be made for it; None: it is no driver's."""
    volume = volumes.get(at(claim, "spec.volumeName", ""))
    if volume is not None:
        driver, handle = at(volume, "spec.csi.driver", ""), at(volume, "spec.csi.volumeHandle", "")
    else:
        made = classes.get(class_of(claim))
        driver = made.get("provisioner", "") if made is not None else ""
        handle = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    return (driver, handle) if driver and handle else None


def node_volumes(
    csi_nodes: Iterable[Object],
    attachments: Iterable[Object],
    users: Iterable[PodClaims],
    claims: Claims,
    volumes: Mapping[str, Object],
    classes: Mapping[str, Object],
) -> dict[str, NodeVolumes]:
    """Of the nodes that have limits."""
    limits: dict[str, dict[str, int]] = {}
    for each in csi_nodes:
        for driver in at(each, "spec.drivers", ()):
            if (most := at(driver, "allocatable.count")) is not None:
                limits.setdefault(each["metadata"]["name"], {})[driver.get("name", "")] = most
    if not limits:
        return {}
    held: dict[str, dict[Volume, frozenset[Key]]] = {node: {} for node in limits}
    for user in users:
        for name in user.names if user.node in limits else ():
            claim = claims.get((user.key[0], name))
            found = driver_volume(claim, volumes, classes) if claim is not None else None
            if found is not None:
                there = held[user.node]
                there[found] = there.get(found, frozenset()) | {user.key}
    attached: dict[str, set[Volume]] = {}
    for each in attachments:
        volume = volumes.get(at(each, "spec.source.persistentVolumeName", ""))
        driver, handle = at(each, "spec.attacher", ""), at(volume, "spec.csi.volumeHandle", "")
        if driver and handle:
            attached.setdefault(at(each, "spec.nodeName", ""), set()).add((driver, handle))
    return {node: NodeVolumes(most, held[node], frozenset(attached.get(node, ()))) for node, most in limits.items()}
