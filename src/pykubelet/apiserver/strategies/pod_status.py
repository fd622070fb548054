"""What an agent may not report of a pod: its class of service is fixed, its addresses are some, and what has ended for
good stays ended."""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object, at


def status_faults(obj: Object, old: Object) -> Iterator[FieldError]:
    status, was = obj.get("status", {}), old.get("status", {})
    if was.get("qosClass") and status.get("qosClass") != was["qosClass"]:
        yield invalid("status.qosClass", status.get("qosClass"), "field is immutable")
    for index, condition in enumerate(status.get("conditions", ())):
        if "/" in condition.get("type", ""):
            for fault in names.qualified_name(condition["type"]):
                yield invalid(f"status.conditions[{index}].Type", condition["type"], fault)
    yield from _ip_faults(status, was, "podIPs")
    yield from _ip_faults(status, was, "hostIPs")
    if status.get("hostIPs") and status["hostIPs"][0].get("ip") != status.get("hostIP"):
        yield invalid("status.hostIPs[0].ip", status["hostIPs"][0].get("ip"), "must be equal to `hostIP`")
    policy = at(old, "spec.restartPolicy", "Always")
    sidecars = {each["name"] for each in at(old, "spec.initContainers", ()) if each.get("restartPolicy") == "Always"}
    yield from _revived(status, was, "containerStatuses", policy, frozenset())
    yield from _revived(status, was, "initContainerStatuses", policy, frozenset(sidecars))
    yield from _revived(status, was, "ephemeralContainerStatuses", "Never", frozenset())


def _ip_faults(status: dict[str, Any], was: dict[str, Any], field: str) -> Iterator[FieldError]:
    """Others go where a node says that its pods are: what was there before stays, and what is new is an address."""
    before = {each.get("ip") for each in was.get(field, ())}
    now = [each.get("ip", "") for each in status.get(field, ())]
    for index, ip in enumerate(now):
        for fault in names.ip_address(ip) if ip not in before else ():
            yield invalid(f"status.{field}[{index}]", ip, fault)
    if len(now) > 1 and (len(now) > 2 or (":" in now[0]) == (":" in now[1])):
        yield invalid(f"status.{field}", None, "may specify no more than one IP for each IP family")


def _revived(
    status: dict[str, Any], was: dict[str, Any], kind: str, policy: str, exempt: frozenset[str]
) -> Iterator[FieldError]:
    """Containers that had ended for good, and are now said to run."""
    if policy == "Always":
        return
    now = {each.get("name"): each for each in status.get(kind, ())}
    for index, before in enumerate(was.get(kind, ())):
        terminated = at(before, "state.terminated")
        name = before.get("name")
        if terminated is None or name in exempt or name not in now:
            continue
        if terminated.get("exitCode") and policy == "OnFailure":
            continue
        if at(now[name], "state.terminated") is None:
            yield forbidden(f"status.{kind}[{index}].state", "may not be transitioned to non-terminated state")
