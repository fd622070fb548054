"""What a recording shows of the arguments of a call: enough to see what was decided, and nothing that is hidden in what
it was decided from: a value that came out of a secret is in no line."""

from collections.abc import Callable, KeysView, Mapping, ValuesView
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from pykubelet.api.container import Container, EphemeralContainer
from pykubelet.api.handlers import LifecycleHandler, Probe
from pykubelet.api.pod import Pod
from pykubelet.base.journal import About, working_for
from pykubelet.pod.container.labels import CONTAINER_HASH
from pykubelet.pod.moments import about
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import ContainerConfig, PullCredentials, SandboxConfig
from pykubelet.pod.resize.allocation import Allocations

_OF_SPEC: Final = frozenset({"command", "args", "env", "annotations", "sandbox", "pod"})
"""Parts of what the runtime is asked for that may hold what people have written into a pod."""
_ACTIONS: Final = ("exec", "http_get", "tcp_socket", "grpc", "sleep")


def arguments(parameters: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """By name, or by place where the contract has no names."""
    found = {}
    for place, value in enumerate(args):
        name = parameters[place] if place < len(parameters) else str(place)
        found[name] = _BY_NAME[name](value) if name in _BY_NAME else shown(value)
    for name, value in kwargs.items():
        found[name] = _BY_NAME[name](value) if name in _BY_NAME else shown(value)
    return found


def shown(value: Any) -> Any:
    view = _VIEWS.get(type(value))
    if view is not None:
        return view(value)
    if isinstance(value, KeysView | ValuesView):
        return _all(value)
    return "look" if callable(value) else value


def whose(args: tuple[Any, ...], named: Mapping[str, Any]) -> About:
    """Which pod a call is about."""
    for each in args:
        if type(each) is Pod:
            return about(each)
    if isinstance(named.get("namespace"), str):
        return About("", named["namespace"], str(named.get("name", named.get("pod", ""))))
    return working_for()


def _pod(pod: Pod) -> str:
    version = f"@{pod.metadata.resource_version}" if pod.metadata.resource_version else ""
    return f"{about(pod)}{version}"


def _action(handler: Probe | LifecycleHandler) -> str:
    return next((name for name in _ACTIONS if getattr(handler, name, None) is not None), "")


def _without_spec(config: Struct) -> dict[str, Any]:
    return {name: each for name, each in asdict(config).items() if name not in _OF_SPEC}


def _container(config: ContainerConfig) -> dict[str, Any]:
    return {
        **_without_spec(config),
        "env": [name for name, _ in config.env],
        "hash": config.annotations.get(CONTAINER_HASH, ""),
    }


def _all(values: Any) -> list[Any]:
    return [shown(each) for each in values]


_VIEWS: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    Pod: _pod,
    ObservedPod: lambda observed: observed.uid,
    Container: lambda container: container.name,
    EphemeralContainer: lambda container: container.name,
    Probe: _action,
    LifecycleHandler: _action,
    SandboxConfig: _without_spec,
    ContainerConfig: _container,
    PullCredentials: lambda login: f"credentials for {login.server}" if login.server else "credentials",
    Allocations: lambda allocations: f"of {len(allocations.allocated)} pods",
    frozenset: sorted,
    set: sorted,
    tuple: _all,
    list: _all,
}
_BY_NAME: Final[Mapping[str, Callable[[Any], Any]]] = {
    "env": lambda env: [name for name, _ in env],
    "command": lambda command: list(command[:1]),
}
