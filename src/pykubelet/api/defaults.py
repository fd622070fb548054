"""What a pod's author left out, filled in as the API server does it.

Static pods never pass an API server, so the agent has to do this for them; the embedded API server does it for all.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pykubelet.api.container import Container, ContainerPort, ResourceRequirements
from pykubelet.api.env import EnvVar, ObjectFieldSelector
from pykubelet.api.handlers import HTTPGetAction, Lifecycle, LifecycleHandler, Probe
from pykubelet.api.image import parse_image
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import HUGEPAGES_PREFIX, container_limits, container_requests, is_pod_level_resource
from pykubelet.api.security import PodSecurityContext
from pykubelet.api.struct import changed
from pykubelet.api.volume_sources import EphemeralVolumeSource
from pykubelet.api.volumes import (
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)

C = TypeVar("C", bound=Container)

_DEFAULT_MODE = 0o644
_TOKEN_LIFETIME = 3600


def default_pod(pod: Pod) -> Pod:
    return changed(pod, spec=default_pod_spec(pod.spec))


def default_pod_spec(spec: PodSpec) -> PodSpec:
    init_containers = tuple(_requests_from_limits(c) for c in spec.init_containers)
    containers = tuple(_requests_from_limits(c) for c in spec.containers)
    if spec.host_network:
        init_containers = tuple(map(_on_host_network, init_containers))
        containers = tuple(map(_on_host_network, containers))
    spec = changed(spec, init_containers=init_containers, containers=containers)
    links = spec.enable_service_links
    links = True if links is None else links
    return default_template_spec(changed(spec, resources=_pod_level_resources(spec), enable_service_links=links))


def default_template_spec(spec: PodSpec) -> PodSpec:
    """Of a template that pods are made of: the rest is filled in when one is made."""
    grace = spec.termination_grace_period_seconds
    return changed(
        spec,
        init_containers=tuple(map(_container, spec.init_containers)),
        containers=tuple(map(_container, spec.containers)),
        ephemeral_containers=tuple(map(_container, spec.ephemeral_containers)),
        volumes=tuple(map(_volume, spec.volumes)),
        dns_policy=spec.dns_policy or "ClusterFirst",
        restart_policy=spec.restart_policy or "Always",
        security_context=spec.security_context or PodSecurityContext(),
        termination_grace_period_seconds=30 if grace is None else grace,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        overhead=_whole_milli(spec.overhead),
    )


def default_image_volumes(spec: PodSpec) -> PodSpec:
    """What upstream defaults only where its gate for images as volumes is on: the uids of static pods are made of what
    it has without."""
    if all(volume.image is None for volume in spec.volumes):
        return spec
    return changed(spec, volumes=tuple(map(_image_volume, spec.volumes)))


def _image_volume(volume: Volume) -> Volume:
    image = volume.image
    if image is None or image.pull_policy:
        return volume
    return changed(volume, image=changed(image, pull_policy=pull_policy(image.reference)))


def pull_policy(image: str) -> str:
    """A moving tag is pulled every time, anything else once."""
    try:
        return "Always" if parse_image(image).tag == "latest" else "IfNotPresent"
    except ValueError:
        return "IfNotPresent"  # validation says what is wrong with the name


# --- containers


def _container(container: C) -> C:
    resources = container.resources
    return changed(
        container,
        image_pull_policy=container.image_pull_policy or pull_policy(container.image),
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        ports=tuple(port if port.protocol else changed(port, protocol="TCP") for port in container.ports),
        env=tuple(map(_env_var, container.env)),
        resources=changed(resources, limits=_whole_milli(resources.limits), requests=_whole_milli(resources.requests)),
        liveness_probe=_probe(container.liveness_probe),
        readiness_probe=_probe(container.readiness_probe),
        startup_probe=_probe(container.startup_probe),
        lifecycle=_lifecycle(container.lifecycle),
    )


def _requests_from_limits(container: Container) -> Container:
    resources = container.resources
    if not resources.limits:
        return container
    return changed(container, resources=changed(resources, requests={**resources.limits, **resources.requests}))


def _on_host_network(container: Container) -> Container:
    return changed(container, ports=tuple(map(_host_port, container.ports)))


def _host_port(port: ContainerPort) -> ContainerPort:
    return port if port.host_port or not port.container_port else changed(port, host_port=port.container_port)


def _env_var(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None:
        return variable
    if source.field_ref is not None:
        source = changed(source, field_ref=_field_ref(source.field_ref))
    if source.file_key_ref is not None and source.file_key_ref.optional is None:
        source = changed(source, file_key_ref=changed(source.file_key_ref, optional=False))
    return changed(variable, value_from=source)


def _field_ref(reference: ObjectFieldSelector) -> ObjectFieldSelector:
    return reference if reference.api_version else changed(reference, api_version="v1")


def _probe(probe: Probe | None) -> Probe | None:
    if probe is None:
        return None
    grpc = probe.grpc
    return changed(
        probe,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        http_get=_http_get(probe.http_get),
        grpc=changed(grpc, service="") if grpc is not None and grpc.service is None else grpc,
    )


def _lifecycle(lifecycle: Lifecycle | None) -> Lifecycle | None:
    if lifecycle is None:
        return None
    return changed(lifecycle, post_start=_handler(lifecycle.post_start), pre_stop=_handler(lifecycle.pre_stop))


def _handler(handler: LifecycleHandler | None) -> LifecycleHandler | None:
    return None if handler is None else changed(handler, http_get=_http_get(handler.http_get))


def _http_get(action: HTTPGetAction | None) -> HTTPGetAction | None:
    return None if action is None else changed(action, path=action.path or "/", scheme=action.scheme or "HTTP")


# --- resources


def _whole_milli(resources: ResourceList) -> ResourceList:
    """The API keeps thousandths and nothing finer."""
    if all(amount.nanos % 10**6 == 0 for amount in resources.values()):
        return resources
    return {name: amount.rounded_to_milli() for name, amount in resources.items()}


def _pod_level_resources(spec: PodSpec) -> ResourceRequirements | None:
    """Requests and limits of the pod as a whole: what only its containers spell out counts for the pod too."""
    resources = spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return resources
    limits: dict[str, Quantity] = dict(resources.limits)
    for name, amount in container_limits(spec).items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in resources.requests:
            limits.setdefault(name, amount)
    requests: dict[str, Quantity] = dict(resources.requests)
    if limits:
        for name, amount in container_requests(spec).items():
            if is_pod_level_resource(name) and not name.startswith(HUGEPAGES_PREFIX):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, amount)
    return changed(resources, limits=_whole_milli(limits), requests=_whole_milli(requests))


# --- volumes


def _volume(volume: Volume) -> Volume:
    if volume == Volume(name=volume.name):
        return changed(volume, empty_dir=EmptyDirVolumeSource())
    sources = {kind: getattr(volume, kind) for kind in _SOURCE_DEFAULTS}
    return changed(volume, **{kind: _SOURCE_DEFAULTS[kind](source) for kind, source in sources.items() if source})


def _absent(**defaults: object) -> Callable[[Any], Any]:
    """Sets each field of a volume source that is absent."""

    def fill(source: Any) -> Any:
        empty = type(source)()
        absent = (field for field in defaults if getattr(source, field) == getattr(empty, field))
        return changed(source, **{field: defaults[field] for field in absent})

    return fill


def _downward_api(source: DownwardAPIVolumeSource) -> DownwardAPIVolumeSource:
    mode = _DEFAULT_MODE if source.default_mode is None else source.default_mode
    return changed(source, default_mode=mode, items=tuple(map(_downward_file, source.items)))


def _downward_file(file: DownwardAPIVolumeFile) -> DownwardAPIVolumeFile:
    return file if file.field_ref is None else changed(file, field_ref=_field_ref(file.field_ref))


def _projected(source: ProjectedVolumeSource) -> ProjectedVolumeSource:
    mode = _DEFAULT_MODE if source.default_mode is None else source.default_mode
    return changed(source, default_mode=mode, sources=tuple(map(_projection, source.sources)))


def _projection(part: VolumeProjection) -> VolumeProjection:
    if part.downward_api is not None:
        files = tuple(map(_downward_file, part.downward_api.items))
        part = changed(part, downward_api=changed(part.downward_api, items=files))
    token = part.service_account_token
    if token is not None and token.expiration_seconds is None:
        part = changed(part, service_account_token=changed(token, expiration_seconds=_TOKEN_LIFETIME))
    return part


def _ephemeral(source: EphemeralVolumeSource) -> EphemeralVolumeSource:
    template = source.volume_claim_template
    if template is None:
        return source
    claim, resources = template.spec, template.spec.resources
    resources = changed(resources, limits=_whole_milli(resources.limits), requests=_whole_milli(resources.requests))
    mode = "Filesystem" if claim.volume_mode is None else claim.volume_mode
    claim = changed(claim, volume_mode=mode, resources=resources)
    return changed(source, volume_claim_template=changed(template, spec=claim))


_SOURCE_DEFAULTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "host_path": _absent(type=""),
    "secret": _absent(default_mode=_DEFAULT_MODE),
    "config_map": _absent(default_mode=_DEFAULT_MODE),
    "downward_api": _downward_api,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "iscsi": _absent(iscsi_interface="default"),
    "rbd": _absent(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azure_disk": _absent(caching_mode="ReadWrite", fs_type="ext4", read_only=False, kind="Shared"),
    "scale_io": _absent(storage_mode="ThinProvisioned", fs_type="xfs"),
}
