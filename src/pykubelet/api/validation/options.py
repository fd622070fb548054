"""What validation may know besides the object: the cluster's choices, and the pod around a container."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.field_errors import FieldError
from pykubelet.api.pod import PodSpec
from pykubelet.api.volumes import Volume

Errors = Iterator[FieldError]


class PodValidationOptions(Struct, frozen=True, gc=False):
    """Choices of a cluster. The defaults are those of Kubernetes 1.34, with privileged containers allowed."""

    allow_privileged: bool = True
    resource_is_pod: bool = True  # False for a template, whose missing parts are filled in when a pod is made of it
    pod_level_resources: bool = True
    container_restart_rules: bool = False


DEFAULT_OPTIONS: Final = PodValidationOptions()


class Scope(Struct, frozen=True):
    """What the parts of one pod need to know of the whole."""

    options: PodValidationOptions
    volumes: Mapping[str, Volume]  # only the valid ones: a container cannot use a broken volume
    claims: frozenset[str]
    grace_period: int | None
    os: str | None
    restart_policy: str
    host_users: bool


def scope_of(spec: PodSpec, volumes: Mapping[str, Volume], options: PodValidationOptions) -> Scope:
    return Scope(
        options=options,
        volumes=volumes,
        claims=frozenset(claim.name for claim in spec.resource_claims if claim.name),
        grace_period=spec.termination_grace_period_seconds,
        os=spec.os.name if spec.os else None,
        restart_policy=spec.restart_policy,
        host_users=spec.host_users is not False,
    )


def every_container(spec: PodSpec, path: str) -> Iterator[tuple[Container, str]]:
    """All containers of every kind, each with its place."""
    for kind, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            yield container, f"{path}.{kind}[{index}]"
