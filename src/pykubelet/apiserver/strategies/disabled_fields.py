"""Fields of features that are off in v1.34: what is new of them is dropped before an object is looked at, and what an
object has already stays, so that it can be written again. As upstream, they are still somebody's in managedFields.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource

Part = dict[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_POD_SPECS: Final = {
    ("", "pods"): "spec",
    ("", "podtemplates"): "template.spec",
    ("", "replicationcontrollers"): "spec.template.spec",
    ("apps", "daemonsets"): "spec.template.spec",
    ("apps", "deployments"): "spec.template.spec",
    ("apps", "replicasets"): "spec.template.spec",
    ("apps", "statefulsets"): "spec.template.spec",
    ("batch", "cronjobs"): "spec.jobTemplate.spec.template.spec",
    ("batch", "jobs"): "spec.template.spec",
}
_FIELDS: Final = {
    ("", "nodes"): ("spec.configSource", "status.config"),
    ("autoscaling", "horizontalpodautoscalers"): (
        "spec.behavior.scaleDown.tolerance",
        "spec.behavior.scaleUp.tolerance",
    ),
    ("coordination.k8s.io", "leases"): ("spec.preferredHolder", "spec.strategy"),
    ("resource.k8s.io", "deviceclasses"): ("spec.extendedResourceName",),
    ("storage.k8s.io", "csidrivers"): ("spec.nodeAllocatableUpdatePeriodSeconds",),
}
"""Plain ones, of other kinds."""


def drop_disabled(resource: Resource, obj: Object, old: Object | None) -> None:
    place = (resource.group, resource.plural)
    for path in _FIELDS.get(place, ()):
        if at(old or {}, path) is None:
            _drop(obj, path)
    path, features = _OF_DEVICES.get(place) or (_POD_SPECS.get(place, ""), _FEATURES)
    if path and (spec := at(obj, path)):
        was = at(old or {}, path) or {}
        for feature in features:
            if not any(feature(was, False)) and any(feature(spec, False)):
                for _ in feature(spec, True):
                    pass


def _drop(obj: Object, path: str) -> None:
    owner, _, name = path.rpartition(".")
    found = at(obj, owner)
    if found:
        found.pop(name, None)


def _containers(spec: Part) -> Iterator[tuple[str, Part]]:
    return ((kind, each) for kind in _CONTAINERS for each in spec.get(kind) or ())


def _taken(part: Part, name: str, drops: bool) -> Iterator[bool]:
    if part.get(name) is not None:
        if drops:
            del part[name]
        yield True


def _hostname_override(spec: Part, drops: bool) -> Iterator[bool]:
    yield from _taken(spec, "hostnameOverride", drops)


def _restart_rules(spec: Part, drops: bool) -> Iterator[bool]:
    """An init container that always runs is no new feature."""
    for kind, each in _containers(spec):
        if kind != "initContainers" or each.get("restartPolicy") != "Always":
            yield from _taken(each, "restartPolicy", drops)
        yield from _taken(each, "restartPolicyRules", drops)


def _stop_signals(spec: Part, drops: bool) -> Iterator[bool]:
    for _, each in _containers(spec):
        lifecycle = each.get("lifecycle") or {}
        yield from _taken(lifecycle, "stopSignal", drops)
        if drops and not lifecycle:
            each.pop("lifecycle", None)


def _env_files(spec: Part, drops: bool) -> Iterator[bool]:
    for _, each in _containers(spec):
        for variable in each.get("env") or ():
            yield from _taken(variable.get("valueFrom") or {}, "fileKeyRef", drops)


def _projections(name: str) -> Callable[[Part, bool], Iterator[bool]]:
    def feature(spec: Part, drops: bool) -> Iterator[bool]:
        for volume in spec.get("volumes") or ():
            for source in at(volume, "projected.sources") or ():
                yield from _taken(source, name, drops)

    return feature


_FEATURES: Final = (
    _hostname_override,
    _restart_rules,
    _stop_signals,
    _env_files,
    _projections("clusterTrustBundle"),
    _projections("podCertificate"),
)
"""Each tells of what it finds in a pod's spec, and takes it away if it is to. Images as volumes are off in v1.34,
too, but our own nodes have them."""


# --- claims on devices


def _of_devices(*names: str) -> Callable[[Part, bool], Iterator[bool]]:
    def feature(spec: Part, drops: bool) -> Iterator[bool]:
        for device in spec.get("devices") or ():
            for name in names:
                yield from _taken(device, name, drops)

    return feature


def _partitions(spec: Part, drops: bool) -> Iterator[bool]:
    for name in ("sharedCounters", "perDeviceNodeSelection"):
        yield from _taken(spec, name, drops)
    yield from _of_devices("consumesCounters", "nodeName", "nodeSelector", "allNodes")(spec, drops)


def _offered_capacity(spec: Part, drops: bool) -> Iterator[bool]:
    yield from _of_devices("allowMultipleAllocations")(spec, drops)
    for device in spec.get("devices") or ():
        for each in (device.get("capacity") or {}).values():
            yield from _taken(each or {}, "requestPolicy", drops)


def _wanted_capacity(spec: Part, drops: bool) -> Iterator[bool]:
    for request in at(spec, "devices.requests") or ():
        for each in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            yield from _taken(each, "capacity", drops)
    for each in at(spec, "devices.constraints") or ():
        yield from _taken(each, "distinctAttribute", drops)


_OF_DEVICES: Final = {
    ("resource.k8s.io", "resourceclaims"): ("spec", (_wanted_capacity,)),
    ("resource.k8s.io", "resourceclaimtemplates"): ("spec.spec", (_wanted_capacity,)),
    ("resource.k8s.io", "resourceslices"): (
        "spec",
        (
            _of_devices("taints"),
            _partitions,
            _of_devices("bindingConditions", "bindingFailureConditions", "bindsToNode"),
            _offered_capacity,
        ),
    ),
}
"""Where such features are, and which."""
