"""Where devices could come from together, and what is said when they cannot."""

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.pod.devices.allocations import DeviceInventory, Holder
from pykubelet.pod.devices.choice import Device
from pykubelet.pod.devices.topology import device_hints, hints_of, pod_hints_of

THING = "example.com/thing"
KNOWN = {
    name: Device(name, True, nodes) for name, nodes in {"a": (0,), "b": (0,), "c": (1,), "d": (0, 1), "e": ()}.items()
}


@pytest.mark.parametrize(
    ("count", "free", "reusable", "expected"),
    [
        (1, "abcde", "", {1: True, 2: True, 3: False}),
        (2, "abc", "", {1: True, 3: False}),
        (3, "abcd", "", {1: True, 3: False}),
        (4, "abcd", "", {3: True}),
        (2, "c", "", {}),
        (2, "cd", "a", {1: True, 3: False}),  # what it has is on the first
        (1, "e", "", {}),  # of one without a place nothing is known
        (2, "bc", "", {3: False}),  # one node would do, were they free
    ],
)
def test_which_sets_of_nodes_do(count: int, free: str, reusable: str, expected: dict[int, bool]) -> None:
    found = device_hints(count, free, reusable, KNOWN, (0, 1))
    assert {hint.affinity: hint.preferred for hint in found} == expected


def wanting(count: int, *, init: int = 0, sidecar: int = 0) -> Pod:
    def container(name: str, much: int, **more: str) -> dict[str, object]:
        return {"name": name, "image": "x", "resources": {"limits": {THING: much}}, **more}

    first = [container("i", init)] if init else []
    beside = [container("s", sidecar, restartPolicy="Always")] if sidecar else []
    spec = {"initContainers": [*beside, *first], "containers": [container("c", count)]}
    return changed(make_pod(uid="u"), spec=codec.convert(PodSpec, spec))


def inventory(known: dict[str, Device] | None = None) -> DeviceInventory:
    found = DeviceInventory()
    found.devices[THING] = known if known is not None else dict(KNOWN)
    return found


def affinities(found: object) -> list[int | None] | None:
    return None if found is None else [hint.affinity for hint in found]  # type: ignore[attr-defined]


def test_what_has_no_place_has_no_preference_and_too_few_cannot_be_had() -> None:
    pod = wanting(1)
    nowhere = inventory({"x": Device("x", True)})
    assert hints_of(nowhere, pod, pod.spec.containers[0], (0, 1)) == {THING: None}
    many = wanting(9)
    assert hints_of(inventory(), many, many.spec.containers[0], (0, 1)) == {THING: ()}
    assert hints_of(DeviceInventory(), pod, pod.spec.containers[0], (0, 1)) == {}


def test_what_it_has_is_what_counts() -> None:
    pod, found = wanting(1), inventory()
    found.give(Holder("u", "c", THING), frozenset("c"), b"")
    assert affinities(hints_of(found, pod, pod.spec.containers[0], (0, 1))[THING]) == [2, 3]
    more = wanting(2)
    assert hints_of(found, more, more.spec.containers[0], (0, 1)) == {THING: ()}


def test_a_pod_wants_as_much_as_at_its_worst_moment() -> None:
    assert affinities(pod_hints_of(inventory(), wanting(1, init=4), (0, 1))[THING]) == [3]
    assert affinities(pod_hints_of(inventory(), wanting(2, sidecar=2), (0, 1))[THING]) == [3]
    assert affinities(pod_hints_of(inventory(), wanting(1, init=1), (0, 1))[THING]) == [1, 2, 3]
