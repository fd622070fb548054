"""A whole pod, as its author wants to create it: everything that is wrong with it, in one go."""

from itertools import islice
from typing import Final

from pykubelet.api.field_errors import FieldError, InvalidObject, forbidden, required
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.api.validation import names
from pykubelet.api.validation.annotations import (
    validate_app_armor_agrees,
    validate_pod_annotations,
    validate_seccomp_agrees,
)
from pykubelet.api.validation.claims import validate_resource_claims
from pykubelet.api.validation.container import (
    validate_containers,
    validate_ephemeral_container_list,
    validate_image_spelling,
    validate_init_containers,
)
from pykubelet.api.validation.env import validate_file_key_volumes
from pykubelet.api.validation.meta import validate_labels, validate_object_meta
from pykubelet.api.validation.network import (
    DNS_POLICIES,
    validate_dns_config,
    validate_host_aliases,
    validate_host_network_ports,
    validate_hostname_override,
)
from pykubelet.api.validation.options import DEFAULT_OPTIONS, Errors, PodValidationOptions, Scope, scope_of
from pykubelet.api.validation.resources import validate_overhead, validate_pod_resources
from pykubelet.api.validation.rules import needed_one_of, spelled
from pykubelet.api.validation.scheduling import (
    validate_affinity,
    validate_scheduling_gates,
    validate_tolerations,
    validate_topology_spread,
)
from pykubelet.api.validation.security import validate_host_users, validate_pod_security_context
from pykubelet.api.validation.volumes import validate_volumes
from pykubelet.api.validation.windows import validate_host_process, validate_os

MOST_FAULTS: Final = 1000
"""That are told of one object: nobody reads more, and each takes time to find and to tell."""


def validate_pod(pod: Pod, options: PodValidationOptions = DEFAULT_OPTIONS) -> tuple[FieldError, ...]:
    """Everything that forbids the creation of this pod, which has its defaults already."""
    return tuple(islice(_pod(pod, options), MOST_FAULTS))


def check_pod(pod: Pod) -> None:
    """Raises InvalidObject unless this pod may be created."""
    if errors := validate_pod(pod):
        raise InvalidObject(errors)


def validate_pod_spec(
    spec: PodSpec, meta: ObjectMeta | None, path: str, options: PodValidationOptions = DEFAULT_OPTIONS
) -> tuple[FieldError, ...]:
    """A pod's spec, or a template's, for which there is no metadata of the pod yet."""
    return tuple(islice(_spec(spec, meta, path, options), MOST_FAULTS))


def validate_ephemeral_containers(spec: PodSpec) -> tuple[FieldError, ...]:
    """The ephemeral containers that somebody adds to a pod that exists."""
    volumes, _ = validate_volumes(spec, "spec.volumes", "", DEFAULT_OPTIONS)
    scope = scope_of(spec, volumes, DEFAULT_OPTIONS)
    return tuple(validate_ephemeral_container_list(spec, "spec.ephemeralContainers", scope))


def _pod(pod: Pod, options: PodValidationOptions) -> Errors:
    meta, spec = pod.metadata, pod.spec
    if (spec.termination_grace_period_seconds or 0) < 0:
        spec = changed(
            spec, termination_grace_period_seconds=1
        )  # as it always was: a negative grace means the shortest
    yield from validate_object_meta(meta, "metadata")
    yield from validate_pod_annotations(meta, spec, "metadata.annotations")
    yield from _spec(spec, meta, "spec", options)
    if not _service_account(spec):
        yield from _no_tokens(spec, "spec.volumes")
    for index, container in enumerate(spec.containers):
        yield from validate_image_spelling(container, f"spec.containers[{index}]")
    for index, container in enumerate(spec.init_containers):
        yield from validate_image_spelling(container, f"spec.initContainers[{index}]")
    if spec.ephemeral_containers:
        yield forbidden("spec.ephemeralContainers", "must be empty at creation: add them to the pod when it exists")
    if spec.node_name and spec.scheduling_gates:
        yield forbidden("spec.nodeName", "must be empty as long as there are schedulingGates")
    yield from validate_seccomp_agrees(meta.annotations, spec, "spec")
    yield from validate_app_armor_agrees(meta.annotations, spec, "spec")


def _spec(spec: PodSpec, meta: ObjectMeta | None, path: str, options: PodValidationOptions) -> Errors:
    if spec.termination_grace_period_seconds is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    volumes, volume_errors = validate_volumes(spec, f"{path}.volumes", meta.name if meta else "", options)
    scope = scope_of(spec, volumes, options)
    yield from volume_errors
    yield from validate_resource_claims(spec, meta, f"{path}.resourceClaims")
    yield from validate_containers(spec.containers, f"{path}.containers", scope)
    yield from validate_init_containers(spec, f"{path}.initContainers", scope)
    yield from validate_ephemeral_container_list(spec, f"{path}.ephemeralContainers", scope)
    yield from validate_pod_resources(spec, f"{path}.resources", scope)
    yield from validate_host_network_ports(spec, path, options)
    yield from needed_one_of(f"{path}.restartPolicy", spec.restart_policy, ("Always", "OnFailure", "Never"))
    yield from needed_one_of(f"{path}.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    yield from validate_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from validate_pod_security_context(spec, f"{path}.securityContext")
    yield from _placement(spec, path, scope)
    yield from _identity(spec, path)
    yield from _rest(spec, path)


def _placement(spec: PodSpec, path: str, scope: Scope) -> Errors:
    yield from validate_affinity(spec.affinity, f"{path}.affinity")
    yield from validate_dns_config(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.readiness_gates):
        field = f"{path}.readinessGates[{index}].conditionType"
        yield from spelled(field, gate.condition_type, names.qualified_name(gate.condition_type))
    yield from validate_scheduling_gates(spec.scheduling_gates, f"{path}.schedulingGates")
    yield from validate_topology_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from validate_host_process(spec, path, scope.options)
    yield from validate_host_users(spec, path)
    yield from validate_hostname_override(spec, f"{path}.hostnameOverride")


def _identity(spec: PodSpec, path: str) -> Errors:
    if account := _service_account(spec):
        yield from spelled(f"{path}.serviceAccountName", account, names.dns_subdomain(account))
    if spec.node_name:
        yield from spelled(f"{path}.nodeName", spec.node_name, names.dns_subdomain(spec.node_name))
    deadline = spec.active_deadline_seconds
    if deadline is not None:
        yield from spelled(f"{path}.activeDeadlineSeconds", deadline, names.between(deadline, 1, 2**31 - 1))
    if spec.hostname:
        yield from spelled(f"{path}.hostname", spec.hostname, names.dns_label(spec.hostname))
    if spec.subdomain:
        yield from spelled(f"{path}.subdomain", spec.subdomain, names.dns_label(spec.subdomain))


def _rest(spec: PodSpec, path: str) -> Errors:
    yield from validate_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from validate_host_aliases(spec.host_aliases, f"{path}.hostAliases")
    if name := spec.priority_class_name:
        yield from spelled(f"{path}.priorityClassName", name, names.dns_subdomain(name))
    if (runtime := spec.runtime_class_name) is not None:
        yield from spelled(f"{path}.runtimeClassName", runtime, names.dns_subdomain(runtime))
    if spec.preemption_policy is not None:
        yield from needed_one_of(f"{path}.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
    yield from validate_overhead(spec.overhead, f"{path}.overhead")
    yield from validate_os(spec, path)
    yield from validate_file_key_volumes(spec, path)


def _service_account(spec: PodSpec) -> str:
    return spec.service_account_name or spec.service_account


def _no_tokens(spec: PodSpec, path: str) -> Errors:
    for index, volume in enumerate(spec.volumes):
        for number, source in enumerate(volume.projected.sources if volume.projected else ()):
            if source.service_account_token is not None:
                yield forbidden(
                    f"{path}[{index}].projected.sources[{number}].serviceAccountToken",
                    "needs spec.serviceAccountName: whose token would it be?",
                )
