"""Devices, classes and claims on them, in few words."""

from typing import Any

from kit.cluster import TestCluster
from pykubelet.apiserver.objects import Object

DEVICES = "resource.k8s.io"
GPU = 'device.driver == "gpu.example.com"'


def device(name: str, **attributes: Any) -> Object:
    kinds = {bool: "bool", int: "int", str: "string"}
    return {"name": name, "attributes": {key: {kinds[type(each)]: each} for key, each in attributes.items()}}


def device_slice(name: str, *devices: Object, driver: str = "gpu.example.com", **spec: Any) -> Object:
    """Of a pool of one slice on node n1, unless it says otherwise."""
    place = {} if {"allNodes", "nodeSelector"} & set(spec) else {"nodeName": "n1"}
    pool = {"name": name, "resourceSliceCount": 1, **spec.pop("pool", {})}
    return {
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, "devices": list(devices), **place, **spec},
    }


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Object:
    selectors = [{"cel": {"expression": each}} for each in expressions or (GPU,)]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


def request(name: str = "r", *expressions: str, **more: Any) -> Object:
    return {"name": name, "exactly": wanted(*expressions, **more)}


def wanted(*expressions: str, **more: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": each}} for each in expressions]} if expressions else {}
    mode = {} if more.get("allocationMode") == "All" else {"allocationMode": "ExactCount", "count": 1}
    return {"deviceClassName": "gpu", **mode, **selectors, **more}


def device_claim(name: str, *requests: Object, **devices: Any) -> Object:
    whole = {"requests": list(requests) or [request()], **devices}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": whole}}


def claims(*names: str) -> Object:
    """Of a pod."""
    return {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in names]}


async def supplied(c: TestCluster, *slices: Object) -> None:
    """A node with two devices, unless others are given, and their class."""
    await c.node("n1")
    await c.add(DEVICES, "deviceclasses", device_class())
    for each in slices or (device_slice("pool", device("gpu-0"), device("gpu-1")),):
        await c.add(DEVICES, "resourceslices", each)


async def claimed(c: TestCluster, *claims: Object) -> None:
    for each in claims:
        await c.add(DEVICES, "resourceclaims", each)


async def allocated(c: TestCluster, name: str) -> tuple[list[str], list[str]]:
    """-> the devices of a claim, and the pods that it is reserved for"""
    claim = await c.get("resourceclaims", name, group=DEVICES)
    status = claim.get("status", {})
    devices = [each["device"] for each in status.get("allocation", {}).get("devices", {}).get("results", ())]
    return devices, [each["name"] for each in status.get("reservedFor", ())]
