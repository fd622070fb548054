"""Which devices claims get, case by case; what upstream's allocator gives in many more is in tests/parity."""

from typing import Any

import pytest

from kit.devices import device, device_claim, device_class, device_slice, request, wanted
from pykubelet.apiserver.cel.program import Budget
from pykubelet.apiserver.controllers.scheduling import device_allocation
from pykubelet.apiserver.controllers.scheduling.device_allocation import allocate
from pykubelet.apiserver.controllers.scheduling.device_pools import OutOfBudget, Supply, Unallocatable
from pykubelet.apiserver.objects import Object

BIG = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0'
RED = 'device.attributes["gpu.example.com"].color == "red"'
COLORS = device_slice("colors", device("a", color="red"), device("b", color="blue"), device("c", color="red"))
ZONE_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
SAME = [{"matchAttribute": "gpu.example.com/color"}]


def first_of(*alternatives: Object) -> Object:
    return {"name": "r", "firstAvailable": [{"name": f"s{n}", **each} for n, each in enumerate(alternatives)]}


def given(
    slices: list[Object], *claims: Object, node: str = "n1", taken: tuple[str, ...] = (), budget: int = 100_000
) -> list[Object] | None:
    used = frozenset(("gpu.example.com", "colors", each) for each in taken)
    supply = Supply(slices, {"gpu": device_class(), "red": device_class("red", RED)}, used)
    return allocate(supply, node, {"zone": "a"} if node == "n1" else {}, claims, Budget(budget))


def names(found: list[Object] | None) -> list[list[str]] | None:
    """Of each claim, which device for which request."""
    if found is None:
        return None
    return [[f"{each['request']}={each['device']}" for each in one["devices"]["results"]] for one in found]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([device_claim("c")], [["r=a"]]),
        ([device_claim("c", request(count=2))], [["r=a", "r=b"]]),
        ([device_claim("c", request(count=4))], None),
        ([device_claim("c", request("r", RED, count=2))], [["r=a", "r=c"]]),
        ([device_claim("c", request(deviceClassName="red", count=2))], [["r=a", "r=c"]]),
        ([device_claim("c", request(allocationMode="All"))], [["r=a", "r=b", "r=c"]]),
        ([device_claim("c", request("r", "false", allocationMode="All"))], None),
        ([device_claim("c", request("x"), request("y", RED))], [["x=a", "y=c"]]),
        ([device_claim("c", request("x"), request("y", RED, count=2))], [["x=b", "y=a", "y=c"]]),
        ([device_claim("c"), device_claim("d"), device_claim("e")], [["r=a"], ["r=b"], ["r=c"]]),
        ([device_claim("c"), device_claim("d", request("r", RED, count=2))], [["r=b"], ["r=a", "r=c"]]),
        ([device_claim("c", request(count=2), constraints=SAME)], [["r=a", "r=c"]]),
        ([device_claim("c", request(count=3), constraints=SAME)], None),
        ([device_claim("c", first_of(wanted(count=4), wanted(count=2)))], [["r/s1=a", "r/s1=b"]]),
        ([device_claim("c", first_of(wanted(count=40), wanted(RED)), request("x"))], [["r/s1=a", "x=b"]]),
        (
            [device_claim("c", first_of(wanted("false"), wanted(allocationMode="All")))],
            [["r/s1=a", "r/s1=b", "r/s1=c"]],
        ),
    ],
)
def test_a_claim_gets_the_first_devices_that_fit(claims: list[Object], expected: list[list[str]] | None) -> None:
    assert names(given([COLORS], *claims)) == expected


def test_what_others_have_is_taken_unless_it_is_only_administered() -> None:
    assert names(given([COLORS], device_claim("c"), taken=("a",))) == [["r=b"]]
    assert given([COLORS], device_claim("c", request(allocationMode="All")), taken=("a",)) is None
    found = given([COLORS], device_claim("c", request(adminAccess=True)), device_claim("d"), taken=("a",))
    assert names(found) == [["r=a"], ["r=b"]]
    assert found is not None
    assert found[0]["devices"]["results"][0]["adminAccess"] is True


def test_a_device_can_be_reached_from_where_its_slice_says() -> None:
    here, there = {"key": "metadata.name", "operator": "In", "values": ["n1"]}, ZONE_A["nodeSelectorTerms"][0]
    for place, node, expected in (
        ({"nodeName": "n1"}, "n1", {"nodeSelectorTerms": [{"matchFields": [here]}]}),
        ({"nodeName": "n1"}, "n2", None),
        ({"nodeSelector": ZONE_A}, "n1", {"nodeSelectorTerms": [there]}),
        ({"nodeSelector": ZONE_A}, "n2", None),
        ({"allNodes": True}, "n2", {}),
    ):
        found = given([device_slice("colors", device("a"), **place)], device_claim("c"), node=node)
        assert (None if found is None else found[0].get("nodeSelector", {})) == expected, place


def test_of_a_pool_only_the_newest_generation_counts_and_all_of_it_for_who_wants_all() -> None:
    old = device_slice("colors", device("gone"), pool={"generation": 1})
    new = {**device_slice("colors", device("a"), pool={"generation": 2}), "metadata": {"name": "z"}}
    assert names(given([old, new], device_claim("c"))) == [["r=a"]]
    half = device_slice("colors", device("a"), pool={"resourceSliceCount": 2})
    assert names(given([half], device_claim("c"))) == [["r=a"]]
    with pytest.raises(
        Unallocatable, match=r"asks for all devices, but resource pool .*/colors is currently being upd"
    ):
        given([half], device_claim("c", request(allocationMode="All")))
    with pytest.raises(Unallocatable, match="duplicate device name a"):
        given([device_slice("colors", device("a"), device("a"))], device_claim("c"))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (device_claim("c", request("r", "device.x")), "claim default/c: selector #0: CEL compile error"),
        (device_claim("c", request("r", RED.replace("color", "size"))), "CEL runtime error: no such key: size"),
        (device_claim("c", request("r", BIG)), "claim default/c: selector #0: CEL runtime error: no such key: memory"),
        (device_claim("c", request(count=33)), "number of requested devices 33 exceeds the claim limit of 32"),
        (device_claim("c", request(deviceClassName="none")), "could not retrieve device class none"),
        (
            device_claim("c", request(allocationMode="All"), constraints=SAME),
            "cannot add device gpu.example.com/colors/b because a claim constraint would not be satisfied",
        ),
    ],
)
def test_what_no_node_could_change_is_said(claim: Object, said: str) -> None:
    with pytest.raises(Unallocatable) as error:
        given([COLORS], claim)
    assert said in str(error.value)


def test_drivers_are_told_what_class_and_claim_have_to_say() -> None:
    def opaque(what: str, **more: Any) -> Object:
        return {"opaque": {"driver": "gpu.example.com", "parameters": {"is": what}}, **more}

    slices, claim = [COLORS], device_claim("c", request("x"), first_of(wanted("false"), wanted()))
    claim["spec"]["devices"]["config"] = [
        opaque("all"), opaque("x", requests=["x"]), opaque("no", requests=["r/s0"]), opaque("yes", requests=["r/s1"])
    ]  # fmt: skip
    known = {"gpu": device_class(config=[opaque("class")])}
    (found,) = allocate(Supply(slices, known), "n1", {}, [claim], Budget(100_000)) or [{}]
    said = [
        (each["source"], each.get("requests"), each["opaque"]["parameters"]["is"])
        for each in found["devices"]["config"]
    ]
    assert said == [
        ("FromClass", ["x", "r/s1"], "class"),
        ("FromClaim", None, "all"),
        ("FromClaim", ["x"], "x"),
        ("FromClaim", ["r/s1"], "yes"),
    ]


def test_a_wild_claim_is_given_up_and_a_large_one_is_not() -> None:
    """A thousand devices, of which each differs from the others: to try all ways to have 16 alike takes forever."""
    slices = [
        device_slice(f"p{n}", *(device(f"d{i}", color=f"{n}-{i}", half=i % 2) for i in range(125))) for n in range(8)
    ]
    alike = [{"matchAttribute": "gpu.example.com/half"}]
    large = device_claim("c", *(request(f"r{n}") for n in range(32)), constraints=alike)
    assert given(slices, large) is not None
    pairs = [{"matchAttribute": "gpu.example.com/half"}, {"matchAttribute": "gpu.example.com/color"}]
    wild = device_claim("c", *(request(f"r{n}") for n in range(32)), constraints=pairs)
    with pytest.raises(OutOfBudget):
        given(slices, wild, budget=20_000)
    every = device_claim("c", *(request(f"r{n}", allocationMode="All") for n in range(32)))
    with pytest.raises(Unallocatable, match="number of requested devices 32000 exceeds"):
        given(slices, every, budget=1_000_000)
    many = list(range(100))
    costly = f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c < 1000)))"
    with pytest.raises(OutOfBudget):
        given(slices, device_claim("c", request("r", costly)), budget=20_000)


def test_what_constraints_and_those_who_want_all_take_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = [device_slice("many", *(device(f"d{n:03}", half=n % 2, own=n) for n in range(1000)))]
    every = device_claim("c", *(request(f"r{n}", allocationMode="All") for n in range(32)))
    with pytest.raises(OutOfBudget):
        given(slices, every, budget=20_000)

    compared = 0

    def counted(constraint: Object, wanted: Any) -> bool:
        nonlocal compared
        compared += 1
        return concerns(constraint, wanted)

    concerns = device_allocation._concerns
    monkeypatch.setattr(device_allocation, "_concerns", counted)
    last = {"requests": ["r30", "r31"]}
    same = [{**last, "matchAttribute": "gpu.example.com/half"}] * 31 + [
        {**last, "matchAttribute": "gpu.example.com/own"}
    ]
    with pytest.raises(OutOfBudget):
        given(slices, device_claim("c", *(request(f"r{n}") for n in range(32)), constraints=same), budget=20_000)
    assert compared <= 20_000
