"""What a recording shows of the arguments of a call: enough to see what was decided, and nothing that is hidden in what
it was decided from: a value that came out of a secret is in no line."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from pykubelet.api import codec
from pykubelet.api.container import Container
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


def arguments(parameters: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """By name, or by place where the contract has no names."""
    named = {parameters[place] if place < len(parameters) else str(place): each for place, each in enumerate(args)}
    return {name: _hidden[name](each) if name in _hidden else shown(each) for name, each in {**named, **kwargs}.items()}


def shown(value: Any) -> Any:
    match value:
        case Pod():
            meta = value.metadata
            return (
                f"{meta.namespace}/{meta.name}@{meta.resource_version}" if meta.resource_version else str(about(value))
            )
        case ObservedPod():
            return value.uid
        case Container():
            return value.name
        case Probe() | LifecycleHandler():
            return next((name for name in _ACTIONS if getattr(value, name, None) is not None), "")
        case SandboxConfig():
            return _without_spec(value)
        case ContainerConfig():
            return {
                **_without_spec(value),
                "env": [name for name, _ in value.env],
                "hash": value.annotations.get(CONTAINER_HASH, ""),
            }
        case PullCredentials():
            return f"credentials for {value.server}" if value.server else "credentials"
        case Allocations():
            return f"of {len(value.allocated)} pods: {sha256(codec.encode_canonical(value)).hexdigest()[:16]}"
        case AbstractSet():
            return sorted(value)
        case tuple() | list():
            return [shown(each) for each in value]
    return "look" if callable(value) else value


def whose(args: tuple[Any, ...], named: Mapping[str, Any]) -> About:
    """Which pod a call is about."""
    pod = next((each for each in args if isinstance(each, Pod)), None)
    if pod is not None:
        return about(pod)
    if isinstance(named.get("namespace"), str):
        return About("", named["namespace"], str(named.get("name", named.get("pod", ""))))
    return working_for()


def _without_spec(config: Struct) -> dict[str, Any]:
    return {name: each for name, each in asdict(config).items() if name not in _OF_SPEC}


_ACTIONS: Final = ("exec", "http_get", "tcp_socket", "grpc", "sleep")
_hidden: Final[Mapping[str, Callable[[Any], Any]]] = {
    "env": lambda env: [name for name, _ in env],
    "command": lambda command: list(command[:1]),
}
