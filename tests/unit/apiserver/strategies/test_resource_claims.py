"""Claims on devices, and what drivers have to give."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

DEVICES = "resource.k8s.io"
CLAIMS = strategy_of(DEVICES, "resourceclaims")
TEMPLATES = strategy_of(DEVICES, "resourceclaimtemplates")
SLICES = strategy_of(DEVICES, "resourceslices")
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def asked(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"requests": list(requests)}}


def exactly(**more: Any) -> dict[str, Any]:
    return asked({"name": "r", "exactly": {"deviceClassName": "gpu", **more}})


def test_one_device_is_meant_unless_more_are_asked_for() -> None:
    expected = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert made(CLAIMS, spec=asked(REQUEST))["spec"]["devices"]["requests"][0]["exactly"] == expected
    template = made(TEMPLATES, spec={"spec": asked(REQUEST)})
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"] == expected
    every = made(CLAIMS, spec=exactly(allocationMode="All"))["spec"]["devices"]["requests"][0]["exactly"]
    assert "count" not in every


PLACE = "spec.devices.requests[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (asked(REQUEST), []),
        (asked({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}), []),
        (asked({"name": "r"}), [PLACE]),
        (asked({**REQUEST, "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}), [PLACE]),
        (asked({**REQUEST, "name": "R_"}), [f"{PLACE}.name"]),
        (asked(REQUEST, REQUEST), ["spec.devices.requests[1].name"]),
        (exactly(deviceClassName=""), [f"{PLACE}.exactly.deviceClassName"]),
        (exactly(allocationMode="Some"), [f"{PLACE}.exactly.allocationMode"]),
        (exactly(count=-1), [f"{PLACE}.exactly.count"]),
        (exactly(allocationMode="All", count=2), [f"{PLACE}.exactly.count"]),
        (asked(*[REQUEST] * 33), ["spec.devices.requests"]),
    ],
)
def test_a_claim_says_what_it_wants(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLAIMS, made(CLAIMS, spec=spec)) == expected
    inner = [each.replace("spec.", "spec.spec.", 1) for each in expected]
    assert faults(TEMPLATES, made(TEMPLATES, spec={"spec": spec})) == inner


def test_a_claim_stays_as_it_is() -> None:
    assert faults(CLAIMS, made(CLAIMS, spec={}), made(CLAIMS, spec=asked(REQUEST))) == ["spec"]
    assert faults(TEMPLATES, made(TEMPLATES), made(TEMPLATES, spec={"spec": asked(REQUEST)})) == ["spec"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"nodeName": None}, ["spec"]),
        ({"allNodes": True}, ["spec"]),
        ({"driver": "B_"}, ["spec.driver"]),
        ({"pool": {"name": "a/b", "resourceSliceCount": 1}}, []),
        ({"pool": {}}, ["spec.pool.name", "spec.pool.resourceSliceCount"]),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, ["spec.devices[1].name"]),
        ({"devices": [{"name": f"d{number}"} for number in range(129)]}, ["spec.devices"]),
    ],
)
def test_a_slice_says_who_gives_what_where(spec: dict[str, Any], expected: list[str]) -> None:
    whole = {"driver": "d.io", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, **spec}
    assert faults(SLICES, made(SLICES, spec=whole)) == expected
