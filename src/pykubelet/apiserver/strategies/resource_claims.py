"""Claims on devices, and their templates: what they ask for stays as it is, what they got is in their status."""

from collections.abc import Iterator
from typing import Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid, required, too_long
from pykubelet.api.scheduling import NodeSelector
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_labels
from pykubelet.api.validation.rules import needed_one_of, spelled
from pykubelet.api.validation.scheduling import validate_node_selector
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies import device_requests as requests
from pykubelet.apiserver.strategies.base import Lookup, Strategy
from pykubelet.apiserver.strategies.csi_drivers import driver_name_faults
from pykubelet.apiserver.strategies.status_conditions import condition_faults

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_MOST_USERS: Final = 256
_MOST_CONDITIONS: Final = 8
_MOST_ADDRESSES: Final = 16
_LONGEST_INTERFACE: Final = 256
_LONGEST_HARDWARE_ADDRESS: Final = 128
_LONGEST_POOL_NAME: Final = 253
_SOURCES: Final = ("FromClaim", "FromClass")
_OF_RESULTS: Final = ("bindingConditions", "bindingFailureConditions", "shareID", "consumedCapacity")
"""Of features that are switched off."""

Faults = Iterator[FieldError]


async def check_administration(strategy: Strategy, obj: Object, field: str, lookup: Lookup) -> None:
    """Access to devices that others have is for those who may label a namespace. Raises 422."""
    metadata = obj["metadata"]
    namespace = await lookup.find("", "namespaces", "", metadata.get("namespace", "")) if field else None
    if field and at(namespace, "metadata.labels", {}).get(ADMIN_LABEL) != "true":
        said = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        resource = strategy.resource
        name = metadata.get("name") or metadata.get("generateName", "")
        raise status.invalid(resource.kind, resource.group, name, [forbidden(field, said)])


def _update_faults(strategy: Strategy, obj: Object, old: Object) -> Faults:
    """What stays as it is was looked at before: its expressions are not made ready again."""
    yield from strategy.validate_meta(obj)
    if not same(obj.get("spec"), old.get("spec")):
        yield from strategy.content_faults(obj)
        yield invalid("spec", obj.get("spec"), "field is immutable")


class ResourceClaimStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        requests.filled(result.setdefault("spec", {}))
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if subresource == "status":
            asked = "" if _administered(old) else _administered(obj)
        else:
            asked = requests.administered(obj["spec"]) if old is None else ""
        await check_administration(self, obj, asked, lookup)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        if subresource == "status":
            _tidy(obj, old)

    def is_heavy(self, obj: Object) -> bool:
        return requests.is_heavy(obj["spec"])

    def content_faults(self, obj: Object) -> Faults:
        yield from requests.claim_faults(obj["spec"], "spec")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Faults:
        if subresource == "status":
            yield from self.validate_meta(obj)
            yield from status_faults(obj, old)
            return
        yield from _update_faults(self, obj, old)


class ResourceClaimTemplateStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        requests.filled(result.setdefault("spec", {}).setdefault("spec", {}))
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        await check_administration(self, obj, requests.administered(obj["spec"]["spec"]) if old is None else "", lookup)

    def is_heavy(self, obj: Object) -> bool:
        return requests.is_heavy(obj["spec"]["spec"])

    def content_faults(self, obj: Object) -> Faults:
        yield from validate_labels(at(obj, "spec.metadata.labels", {}), "spec.metadata.labels")
        yield from requests.claim_faults(obj["spec"]["spec"], "spec.spec")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Faults:
        yield from _update_faults(self, obj, old)


# --- the status of a claim

_Id = tuple[str, str, str]


def _id(each: Object) -> _Id:
    return each.get("driver", ""), each.get("pool", ""), each.get("device", "")


def _results(claim: Object | None) -> list[Object]:
    found: list[Object] = at(claim, "status.allocation.devices.results", [])
    return found


def _administered(claim: Object | None) -> str:
    for index, each in enumerate(_results(claim)):
        if each.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""


def _tidy(obj: Object, old: Object) -> None:
    """Who gives devices back says nothing about them any more."""
    given = obj.get("status") or {}
    if at(given, "allocation") is not None:
        given["allocation"].pop("allocationTimestamp", None)
    for each in _results(obj):
        for name in _OF_RESULTS:
            each.pop(name, None)
    gone = {_id(each) for each in _results(old)} - {_id(each) for each in _results(obj)}
    told = [each for each in given.get("devices") or () if _id(each) not in gone]
    for each in told:
        each.pop("shareID", None)
    given.pop("devices", None)
    if told:
        given["devices"] = told


def status_faults(obj: Object, old: Object) -> Faults:
    given, was = obj.get("status") or {}, old.get("status") or {}
    users, allocation = given.get("reservedFor") or [], given.get("allocation")
    yield from requests.listed("status.reservedFor", users, _MOST_USERS, _user_faults)
    yield from requests.repeated("status.reservedFor", [each.get("uid", "") for each in users], "uid")
    known = {_id(each) for each in _results(obj)}
    devices = given.get("devices") or []
    for index, each in enumerate(devices):
        yield from _device_status_faults(each, f"status.devices[{index}]", known)
    yield from requests.repeated("status.devices", [_id(each) for each in devices], "deviceID")
    if users and allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif at(obj, "metadata.deletionTimestamp") and any(each not in (was.get("reservedFor") or ()) for each in users):
        said = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden("status.reservedFor", said)
    if allocation is not None and was.get("allocation") is not None:
        if not same(allocation, was["allocation"]):
            yield invalid("status.allocation", allocation, "field is immutable")
    elif allocation is not None:
        yield from _allocation_faults(allocation, requests.request_names(obj["spec"]))


def _user_faults(user: Object, path: str) -> Faults:
    for name in ("resource", "name", "uid"):
        if not user.get(name):
            yield required(f"{path}.{name}", "")


def _allocation_faults(allocation: Object, known: frozenset[str]) -> Faults:
    def result(each: Object, path: str) -> Faults:
        yield from requests.reference(each.get("request", ""), f"{path}.request", known)
        yield from _place_faults(each, path)

    def configuration(each: Object, path: str) -> Faults:
        yield from needed_one_of(f"{path}.source", each.get("source", ""), _SOURCES)
        yield from requests.references(each.get("requests") or (), f"{path}.requests", known)
        yield from requests.configuration_faults(each, path)

    path = "status.allocation"
    yield from requests.listed(f"{path}.devices.results", at(allocation, "devices.results", ()), requests.MOST, result)
    config = at(allocation, "devices.config", ())
    yield from requests.listed(f"{path}.devices.config", config, 2 * requests.MOST, configuration)
    if allocation.get("nodeSelector") is not None:
        yield from node_selector_faults(allocation["nodeSelector"], f"{path}.nodeSelector")


def node_selector_faults(selector: Object, path: str) -> Faults:
    try:
        yield from validate_node_selector(convert(NodeSelector, selector), path)
    except DecodeError as error:
        yield invalid(path, selector, str(error))


def _place_faults(each: Object, path: str) -> Faults:
    yield from driver_name_faults(f"{path}.driver", each.get("driver", ""))
    yield from pool_name_faults(f"{path}.pool", each.get("pool", ""))
    yield from requests.label_faults(f"{path}.device", each.get("device", ""))


def pool_name_faults(field: str, name: str) -> Faults:
    """Domains, with slashes between."""
    if not name:
        yield required(field, "")
        return
    if names.size(name) > _LONGEST_POOL_NAME:
        yield too_long(field, _LONGEST_POOL_NAME)
    for part in name.split("/"):
        yield from spelled(field, part, names.dns_subdomain(part))


def _device_status_faults(each: Object, path: str, known: set[_Id]) -> Faults:
    yield from _place_faults(each, path)
    if _id(each) not in known:
        yield invalid(path, "/".join(_id(each)), "must be an allocated device in the claim")
    conditions = each.get("conditions") or []
    yield from requests.listed(f"{path}.conditions", conditions, _MOST_CONDITIONS, condition_faults)
    yield from requests.repeated(f"{path}.conditions", [each.get("type", "") for each in conditions], "type")
    if each.get("data") is not None:
        yield from requests.raw_faults(each["data"], f"{path}.data")
    network = each.get("networkData") or {}
    for name, most in (("interfaceName", _LONGEST_INTERFACE), ("hardwareAddress", _LONGEST_HARDWARE_ADDRESS)):
        if names.size(network.get(name) or "") > most:
            yield too_long(f"{path}.networkData.{name}", most)
    addresses = network.get("ips") or []
    yield from requests.listed(f"{path}.networkData.ips", addresses, _MOST_ADDRESSES, _address_faults)
    yield from requests.repeated(f"{path}.networkData.ips", addresses)


def _address_faults(address: str, path: str) -> Faults:
    """With its prefix, as `ip address` shows it."""
    own, slash, prefix = address.partition("/")
    is_number = prefix.isdecimal() and len(prefix) <= 3
    if not slash or names.ip_address(own) or not is_number or int(prefix) > (128 if ":" in own else 32):
        yield invalid(path, address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")
