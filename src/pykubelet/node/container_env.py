"""The environment of a container that is about to start: what it is made of is fetched, then put together."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.base.errors import NotFound, Retry
from pykubelet.node.dependencies import NodeInfo
from pykubelet.pod.container.env import Environment, EnvObjects, environment, wanted_objects
from pykubelet.pod.container.service_env import service_variables
from pykubelet.pod.ports.api import PodObjects

T = TypeVar("T")


async def container_environment(
    objects: PodObjects | None, pod: Pod, container: Container, node: NodeInfo, pod_ips: tuple[str, ...]
) -> Environment:
    """Raises base.errors; the container must not run then. `objects` is None on a node without an API server."""
    found = None if objects is None else await _fetch(objects, pod, container, node.api_server)
    try:
        return environment(
            pod,
            container,
            allocatable=node.allocatable,
            pod_ips=pod_ips,
            host_ips=node.facts.host_ips,
            objects=found,
        )
    except NotFound as error:  # it is often made right after the pod
        raise Retry(str(error)) from error


async def _fetch(objects: PodObjects, pod: Pod, container: Container, api_server: tuple[str, int] | None) -> EnvObjects:
    namespace = pod.metadata.namespace
    config_maps, secrets = wanted_objects(container)

    async def find(name: str, get: Callable[..., Awaitable[T]]) -> T | None:
        try:
            return await get(pod, name, fresh=True)
        except NotFound:
            return None  # whether it has to be there, the container says

    services = await objects.services(namespace, wait=not is_static(pod))
    return EnvObjects(
        config_maps={name: await find(name, objects.config_map) for name in config_maps},
        secrets={name: await find(name, objects.secret) for name in secrets},
        services=service_variables(
            services, namespace, links=pod.spec.enable_service_links is not False, api_server=api_server
        ),
    )
