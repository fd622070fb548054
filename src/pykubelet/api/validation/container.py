"""Containers of all kinds: what they share, and what sets regular, init, sidecar and ephemeral ones apart."""

from collections.abc import Sequence
from typing import Final

from pykubelet.api.container import (
    Container,
    ContainerPort,
    ContainerRestartRule,
    EphemeralContainer,
    ResourceRequirements,
)
from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from pykubelet.api.pod import PodSpec
from pykubelet.api.validation import names
from pykubelet.api.validation.env import validate_env, validate_env_from
from pykubelet.api.validation.mounts import validate_no_sub_paths, validate_volume_devices, validate_volume_mounts
from pykubelet.api.validation.options import Errors, Scope
from pykubelet.api.validation.probe import validate_lifecycle, validate_liveness_probe, validate_readiness_probe
from pykubelet.api.validation.resources import validate_container_resources, validate_resize_policy
from pykubelet.api.validation.rules import filled, needed, needed_one_of, one_of, spelled
from pykubelet.api.validation.security import validate_security_context

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_MOST_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255


def validate_containers(containers: Sequence[Container], path: str, scope: Scope) -> Errors:
    if not containers:
        yield required(path, "must have at least one container")
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        yield from _common(container, place, scope)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        seen.add(container.name)
        yield from _hooks_and_probes(container, place, scope)
        if scope.options.container_restart_rules:
            yield from _restart_policy(container, place)
        elif container.restart_policy is not None:
            yield forbidden(f"{place}.restartPolicy", "must not be set, except for init containers")
    yield from _host_ports(containers, path)


def validate_init_containers(spec: PodSpec, path: str, scope: Scope) -> Errors:
    seen = {container.name for container in spec.containers}
    for index, container in enumerate(spec.init_containers):
        place = f"{path}[{index}]"
        yield from _common(container, place, scope)
        yield from _init_restart_policy(container, place, scope)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        elif container.name:
            seen.add(container.name)
        yield from _host_ports((container,), path)  # init containers run one by one: each is compared only with itself
        if container.restart_policy == "Always":
            yield from _hooks_and_probes(container, place, scope)
        else:
            yield from _only_for_sidecars(container, place)


def validate_ephemeral_container_list(spec: PodSpec, path: str, scope: Scope) -> Errors:
    others = {container.name for container in (*spec.containers, *spec.init_containers)}
    seen = set(others)
    for index, container in enumerate(spec.ephemeral_containers):
        place = f"{path}[{index}]"
        yield from _common(container, place, scope)
        yield from validate_image_spelling(container, place)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        seen.add(container.name)
        target = container.target_container_name
        if target and target not in others:
            yield not_found(f"{place}.targetContainerName", target, "must name a regular or init container of this pod")
        yield from _not_for_ephemeral(container, place)
        yield from validate_no_sub_paths(container.volume_mounts, f"{place}.volumeMounts")


def validate_image_spelling(container: Container, path: str) -> Errors:
    """Only for a pod: in a template an odd image may stand for one that is filled in later."""
    if container.image.strip(names.WHITESPACE) != container.image:
        yield invalid(f"{path}.image", repr(container.image), "must not have spaces around it")


def _common(container: Container, path: str, scope: Scope) -> Errors:
    yield from needed(f"{path}.name", container.name, names.dns_label)
    yield from filled(f"{path}.image", container.image)
    yield from needed_one_of(
        f"{path}.terminationMessagePolicy", container.termination_message_policy, ("File", "FallbackToLogsOnError")
    )
    yield from _ports(container.ports, f"{path}.ports")
    yield from validate_env(container.env, f"{path}.env")
    yield from validate_env_from(container.env_from, f"{path}.envFrom")
    yield from validate_volume_mounts(container, f"{path}.volumeMounts", scope)
    yield from validate_volume_devices(container, f"{path}.volumeDevices", scope)
    yield from needed_one_of(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)
    yield from validate_container_resources(container.resources, f"{path}.resources", scope.claims)
    yield from validate_resize_policy(container.resize_policy, f"{path}.resizePolicy", scope.restart_policy)
    yield from validate_security_context(container.security_context, f"{path}.securityContext", scope)


def _hooks_and_probes(container: Container, path: str, scope: Scope) -> Errors:
    yield from validate_lifecycle(container.lifecycle, f"{path}.lifecycle", scope)
    yield from validate_liveness_probe(container.liveness_probe, f"{path}.livenessProbe")
    yield from validate_readiness_probe(container.readiness_probe, f"{path}.readinessProbe")
    yield from validate_liveness_probe(container.startup_probe, f"{path}.startupProbe")


def _only_for_sidecars(container: Container, path: str) -> Errors:
    fields = {
        "lifecycle": container.lifecycle,
        "livenessProbe": container.liveness_probe,
        "readinessProbe": container.readiness_probe,
        "startupProbe": container.startup_probe,
    }
    for name, value in fields.items():
        if value is not None:
            yield forbidden(
                f"{path}.{name}", "must not be set for an init container unless its restartPolicy is Always"
            )


def _not_for_ephemeral(container: EphemeralContainer, path: str) -> Errors:
    fields = {
        "ports": container.ports or None,
        "resources": container.resources if container.resources != ResourceRequirements() else None,
        "resizePolicy": container.resize_policy or None,
        "restartPolicy": container.restart_policy,
        "restartPolicyRules": container.restart_policy_rules or None,
        "livenessProbe": container.liveness_probe,
        "readinessProbe": container.readiness_probe,
        "startupProbe": container.startup_probe,
        "lifecycle": container.lifecycle,
    }
    for name, value in fields.items():
        if value is not None:
            yield forbidden(f"{path}.{name}", "must not be set for an ephemeral container")


def _ports(ports: Sequence[ContainerPort], path: str) -> Errors:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        faults = names.port_name(port.name) if port.name else []
        yield from spelled(f"{place}.name", port.name, faults)
        if port.name in seen:
            yield duplicate(f"{place}.name", port.name)
        elif port.name and not faults:
            seen.add(port.name)
        yield from needed(f"{place}.containerPort", port.container_port, names.port_number)
        if port.host_port:
            yield from spelled(f"{place}.hostPort", port.host_port, names.port_number(port.host_port))
        yield from needed_one_of(f"{place}.protocol", port.protocol, ("SCTP", "TCP", "UDP"))


def _host_ports(containers: Sequence[Container], path: str) -> Errors:
    taken: set[tuple[str, str, int]] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not port.host_port:
                continue
            key = (port.protocol, port.host_ip, port.host_port)
            if key in taken:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", "/".join(map(str, key)))
            taken.add(key)


def _init_restart_policy(container: Container, path: str, scope: Scope) -> Errors:
    if container.restart_policy is None:
        return
    if not scope.options.container_restart_rules:
        yield from one_of(f"{path}.restartPolicy", container.restart_policy, ("Always",))
    elif container.restart_policy != "Always":
        yield from _restart_policy(container, path)
    elif container.restart_policy_rules:
        yield forbidden(f"{path}.restartPolicyRules", "must not be set for a sidecar, which always restarts")


def _restart_policy(container: Container, path: str) -> Errors:
    if container.restart_policy is not None:
        yield from one_of(f"{path}.restartPolicy", container.restart_policy, _RESTART_POLICIES)
    elif container.restart_policy_rules:
        yield required(f"{path}.restartPolicy", "is required beside restartPolicyRules")
    if len(container.restart_policy_rules) > _MOST_RULES:
        yield _too_many(f"{path}.restartPolicyRules", _MOST_RULES, "rules")
    for index, rule in enumerate(container.restart_policy_rules):
        yield from _restart_rule(rule, f"{path}.restartPolicyRules[{index}]")


def _restart_rule(rule: ContainerRestartRule, path: str) -> Errors:
    if rule.action != "Restart":
        yield not_supported(f"{path}.action", rule.action, ("Restart",))
    if rule.exit_codes is None:
        yield required(f"{path}.exitCodes")
        return
    yield from one_of(f"{path}.exitCodes.operator", rule.exit_codes.operator, ("In", "NotIn"))
    if len(rule.exit_codes.values) > _MOST_EXIT_CODES:
        yield _too_many(f"{path}.exitCodes.values", _MOST_EXIT_CODES, "exit codes")


def _too_many(field: str, limit: int, what: str) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"must have at most {limit} {what}")
