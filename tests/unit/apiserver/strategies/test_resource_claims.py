"""Claims on devices, and what drivers have to give."""

import copy
from typing import Any

import pytest

from kit.cluster import cluster
from kit.strategies import faults, made, strategy_of
from kit.virtual_time import virtual_time
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.strategies import resource_claims
from pykubelet.apiserver.strategies.disabled_fields import drop_disabled
from pykubelet.apiserver.strategies.resource_claims import ADMIN_LABEL

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
EXPRESSION = f"{PLACE}.exactly.selectors[0].cel.expression"


def also(**devices: Any) -> dict[str, Any]:
    return {"devices": {"requests": [REQUEST], **devices}}


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
        (asked(*({**REQUEST, "name": f"r{number}"} for number in range(33))), ["spec.devices.requests"]),
        (
            asked({"name": "r", "firstAvailable": [{"name": f"s{n}", "deviceClassName": "gpu"} for n in range(9)]}),
            [f"{PLACE}.firstAvailable"],
        ),
        (exactly(selectors=[{"cel": {"expression": 'device.driver == "a"'}}]), []),
        (exactly(selectors=[{"cel": {"expression": "cel.bind(d, device.attributes['a'], d.x)"}}]), []),
        (exactly(selectors=[{"cel": {"expression": "device.serial == 'a'"}}]), [f"{EXPRESSION}"]),
        (exactly(selectors=[{"cel": {"expression": "1"}}]), [f"{EXPRESSION}"]),
        (exactly(selectors=[{"cel": {"expression": "true || " * 2000 + "true"}}]), [f"{EXPRESSION}"]),
        (exactly(selectors=[{"cel": {"expression": "(" * 3000 + "true" + ")" * 3000}}]), [f"{EXPRESSION}"]),
        (
            asked(
                *(
                    {
                        "name": f"r{n}",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [{"cel": {"expression": f"'{'x' * 10_000}' == device.driver || {n} == 1"}}],
                        },
                    }
                    for n in range(32)
                )
            ),
            ["spec.devices.requests"],
        ),
        (exactly(selectors=[{}]), [f"{PLACE}.exactly.selectors[0].cel"]),
        (exactly(tolerations=[{"operator": "Exists", "key": "a", "effect": "NoExecute"}]), []),
        (
            exactly(tolerations=[{"operator": "Near", "effect": "x"}]),
            [f"{PLACE}.exactly.tolerations[0].operator", f"{PLACE}.exactly.tolerations[0].effect"],
        ),
        (also(constraints=[{"requests": ["r"], "matchAttribute": "a.io/x"}]), []),
        (
            also(constraints=[{"requests": ["x"], "matchAttribute": "x"}]),
            ["spec.devices.constraints[0].requests[0]", "spec.devices.constraints[0].matchAttribute"],
        ),
        (
            also(constraints=[{"requests": ["r", "r"]}]),
            ["spec.devices.constraints[0].requests[1]", "spec.devices.constraints[0].matchAttribute"],
        ),
        (also(config=[{"opaque": {"driver": "a.io", "parameters": {"x": 1}}}]), []),
        (
            also(config=[{}, {"opaque": {"driver": "a.io", "parameters": [1]}}]),
            ["spec.devices.config[0].opaque", "spec.devices.config[1].opaque.parameters"],
        ),
        (
            also(config=[{"opaque": {"driver": "a.io", "parameters": {"x": "y" * 11_000}}}]),
            ["spec.devices.config[0].opaque.parameters"],
        ),
    ],
)
def test_a_claim_says_what_it_wants(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLAIMS, made(CLAIMS, spec=spec)) == expected
    inner = [each.replace("spec.", "spec.spec.", 1) for each in expected]
    assert faults(TEMPLATES, made(TEMPLATES, spec={"spec": spec})) == inner


def test_a_claim_stays_as_it_is() -> None:
    assert faults(CLAIMS, made(CLAIMS, spec={}), made(CLAIMS, spec=asked(REQUEST))) == ["spec"]
    assert faults(TEMPLATES, made(TEMPLATES), made(TEMPLATES, spec={"spec": asked(REQUEST)})) == ["spec"]


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
DEVICE = "spec.devices[0]"


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
        ({"nodeName": None, "nodeSelector": ZONE}, []),
        (
            {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [*ZONE["nodeSelectorTerms"]] * 2}},
            ["spec.nodeSelector.nodeSelectorTerms"],
        ),
        ({"nodeName": "", "allNodes": True}, ["spec.nodeName"]),
        ({"devices": [{"name": "a", "attributes": {"x": {"int": 1}, "a.io/y": {"version": "1.2.3-rc.1"}}}]}, []),
        (
            {"devices": [{"name": "a", "attributes": {"x-y": {"int": 1}, "z": {"version": "v1"}, "u": {}}}]},
            [f"{DEVICE}.attributes[x-y]", f"{DEVICE}.attributes[z].version", f"{DEVICE}.attributes[u]"],
        ),
        (
            {"devices": [{"name": "a", "attributes": {"x": {"int": 1, "bool": True}, "y": {"string": "s" * 65}}}]},
            [f"{DEVICE}.attributes[x]", f"{DEVICE}.attributes[y].string"],
        ),
        ({"devices": [{"name": "a", "capacity": {f"c{number}": {"value": "1"} for number in range(33)}}]}, [DEVICE]),
    ],
)
def test_a_slice_says_who_gives_what_where(spec: dict[str, Any], expected: list[str]) -> None:
    whole = {"driver": "d.io", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, **spec}
    assert faults(SLICES, made(SLICES, spec=whole)) == expected


def test_a_class_says_which_devices_and_what_drivers_are_told() -> None:
    classes = strategy_of(DEVICES, "deviceclasses")
    good = {"selectors": [{"cel": {"expression": "device.driver == 'a.io'"}}], "config": []}
    assert faults(classes, made(classes, spec=good)) == []
    bad = {"selectors": [{"cel": {"expression": "x"}}], "config": [{"opaque": {"driver": "B_", "parameters": {}}}]}
    assert faults(classes, made(classes, spec=bad)) == [
        "spec.selectors[0].cel.expression",
        "spec.config[0].opaque.driver",
    ]


def test_what_is_switched_off_is_left_out_of_new_objects() -> None:
    claim = made(CLAIMS, spec=exactly(capacity={"requests": {"a": "1"}}))
    claim["spec"]["devices"]["constraints"] = [{"distinctAttribute": "a.io/x"}]
    drop_disabled(CLAIMS.resource, claim, None)
    assert "capacity" not in claim["spec"]["devices"]["requests"][0]["exactly"]
    assert faults(CLAIMS, claim) == ["spec.devices.constraints[0].matchAttribute"]
    devices = [
        {"name": "a", "taints": [{"key": "x", "effect": "NoSchedule"}], "allNodes": True},
        {"name": "b", "capacity": {"c": {"value": "1", "requestPolicy": {}}}, "bindsToNode": True},
    ]
    given = {"driver": "d.io", "perDeviceNodeSelection": True, "devices": devices}
    found = made(SLICES, spec=copy.deepcopy(given))
    drop_disabled(SLICES.resource, found, None)
    left = [{"name": "a"}, {"name": "b", "capacity": {"c": {"value": "1"}}}]
    assert found["spec"] == {"driver": "d.io", "devices": left, "pool": found["spec"]["pool"]}
    drop_disabled(SLICES.resource, {"spec": {"devices": [{"name": "a", "capacity": {"c": None}}]}}, None)
    again = made(SLICES, spec=copy.deepcopy(given))
    drop_disabled(SLICES.resource, again, copy.deepcopy(again))
    assert again["spec"]["perDeviceNodeSelection"] is True


# --- what a claim got

RESULT = {"request": "r", "driver": "a.io", "pool": "p", "device": "d"}
USER = {"resource": "pods", "name": "web", "uid": "1"}
GIVEN: dict[str, Any] = {"allocation": {"devices": {"results": [RESULT]}}}


@pytest.mark.parametrize(
    ("status", "before", "expected"),
    [
        (GIVEN, {}, []),
        ({**GIVEN, "reservedFor": [USER]}, {}, []),
        ({"reservedFor": [USER]}, {}, ["status.reservedFor"]),
        ({**GIVEN, "reservedFor": [USER, USER]}, {}, ["status.reservedFor[1].uid"]),
        ({**GIVEN, "reservedFor": [{}]}, {}, [f"status.reservedFor[0].{name}" for name in ("resource", "name", "uid")]),
        ({**GIVEN, "reservedFor": [{**USER, "uid": f"{n}"} for n in range(257)]}, {}, ["status.reservedFor"]),
        ({"allocation": {"devices": {"results": [{**RESULT, "device": "e"}]}}}, GIVEN, ["status.allocation"]),
        ({}, {**GIVEN, "reservedFor": [USER]}, []),
        ({"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}}, {},
         ["status.allocation.devices.results[0].request"]),
        ({"allocation": {"devices": {"results": [RESULT] * 33}}}, {}, ["status.allocation.devices.results"]),
        ({"allocation": {"devices": {"config": [{"source": "x", "opaque": {"driver": "a.io", "parameters": {}}}]}}}, {},
         ["status.allocation.devices.config[0].source"]),
        ({"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}}, {},
         ["status.allocation.nodeSelector.nodeSelectorTerms"]),
        ({**GIVEN, "devices": [{"driver": "a.io", "pool": "p", "device": "d", "networkData": {"ips": ["10.0.0.1/8"]}}]},
         GIVEN, []),
        ({**GIVEN, "devices": [{"driver": "a.io", "pool": "p", "device": "e", "networkData": {"ips": ["10.0.0.1"]}}]},
         GIVEN, ["status.devices[0]", "status.devices[0].networkData.ips[0]"]),
    ],
)  # fmt: skip
def test_the_status_says_what_a_claim_got_and_for_whom(status: Any, before: Any, expected: list[str]) -> None:
    old = made(CLAIMS, spec=asked(REQUEST), status=before)
    new = made(CLAIMS, spec=asked(REQUEST), status=status)
    assert [each.field for each in CLAIMS.validate_update(new, old, "status")] == expected


def test_a_claim_that_goes_is_reserved_for_nobody_new() -> None:
    leaving = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a.io/x"]}
    old = made(CLAIMS, spec=asked(REQUEST), status=GIVEN, metadata=leaving)
    new = made(CLAIMS, spec=asked(REQUEST), status={**GIVEN, "reservedFor": [USER]}, metadata=leaving)
    assert [each.field for each in CLAIMS.validate_update(new, old, "status")] == ["status.reservedFor"]


def test_of_devices_that_are_given_back_nothing_is_told_any_more() -> None:
    told = [{"driver": "a.io", "pool": "p", "device": "d"}]
    old = made(CLAIMS, spec=asked(REQUEST), status={**GIVEN, "devices": told})
    new = made(CLAIMS, spec=asked(REQUEST), status={"devices": told})
    CLAIMS.prepare_update(new, old, "status")
    assert new["status"] == {}


@virtual_time
async def test_access_as_an_administrator_takes_a_namespace_with_a_label() -> None:
    async with cluster() as c:
        await c.add("", "namespaces", {"metadata": {"name": "admin", "labels": {ADMIN_LABEL: "true"}}})
        kind = (DEVICES, "resourceclaims")
        asking = exactly(adminAccess=True)
        await c.make(kind, {"metadata": {"name": "a", "namespace": "admin"}, "spec": asking})
        await c.make(kind, {"metadata": {"name": "a", "namespace": "default"}, "spec": exactly(adminAccess=False)})
        template = {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": asking}}
        for which, obj in (
            (kind, {"metadata": {"name": "b", "namespace": "default"}, "spec": asking}),
            ((DEVICES, "resourceclaimtemplates"), template),
        ):
            with pytest.raises(ApiError, match=r"requires the `resource.kubernetes.io/admin-access: true` label"):
                await c.make(which, obj)


def test_an_address_with_a_prefix_of_many_digits_is_refused_and_breaks_nothing() -> None:
    assert [each.field for each in resource_claims._address_faults(f"10.0.0.1/{'9' * 5_000}", "ips[0]")] == ["ips[0]"]
    assert not list(resource_claims._address_faults("10.0.0.1/24", "ips[0]"))
