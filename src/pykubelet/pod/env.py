"""The environment of a container."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.env import EnvFromSource, EnvVarSource
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.base.errors import Invalid
from pykubelet.pod.downward import field_value, resource_value
from pykubelet.pod.unsupported import Unsupported

Environment = tuple[tuple[str, str], ...]
"""Names and values; each name once, in the order in which the container's author first wrote them."""

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def environment(
    pod: Pod,
    container: Container,
    *,
    allocatable: ResourceList,
    pod_ips: tuple[str, ...] = (),
    host_ips: tuple[str, ...] = (),
) -> Environment:
    """Every variable of a container, with `$(NAME)` replaced by the variables before it.

    `allocatable` is what the node has for pods: the answer for a container that asks for a limit which it has not.
    Raises Unsupported or Invalid; the container must not run then.
    """
    for source in container.env_from:
        raise Unsupported("envFrom", _env_from_kind(source))

    def looked_up(name: str, source: EnvVarSource) -> str:
        try:
            if source.field_ref is not None:
                return field_value(source.field_ref, pod, pod_ips=pod_ips, host_ips=host_ips)
            if source.resource_field_ref is not None:
                return resource_value(source.resource_field_ref, pod, container, allocatable)
        except Invalid as error:
            raise Invalid(f'env "{name}": {error}') from None
        if kind := _missing_kind(source):
            raise Unsupported(f'env "{name}"', kind)
        return ""

    values: dict[str, str] = {}
    for variable in container.env:
        if variable.value or variable.value_from is None:
            values[variable.name] = expand(variable.value, values)
        else:
            values[variable.name] = looked_up(variable.name, variable.value_from)
    return tuple(values.items())


def _env_from_kind(source: EnvFromSource) -> str:
    if source.config_map_ref is not None:
        return f'configMapRef "{source.config_map_ref.name}"'
    return "secretRef" if source.secret_ref is None else f'secretRef "{source.secret_ref.name}"'


def _missing_kind(source: EnvVarSource) -> str:
    kinds = {
        "configMapKeyRef": source.config_map_key_ref,
        "secretKeyRef": source.secret_key_ref,
        "fileKeyRef": source.file_key_ref,
    }
    return next((kind for kind, reference in kinds.items() if reference is not None), "")


def expand_all(words: Iterable[str], env: Environment) -> tuple[str, ...]:
    """A command or its arguments, with each `$(NAME)` of the environment replaced."""
    variables = dict(env)
    return tuple(expand(word, variables) for word in words)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` that is known. `$$` is a dollar; what is unknown stays as it was written."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    # After the last parenthesis no reference can end: to look for an end from each `$(` there would take for ever.
    closed = text.rfind(")") + 1
    return _REFERENCE.sub(replacement, text[:closed]) + text[closed:].replace("$$", "$")


def references(text: str) -> tuple[str, ...]:
    """The names that a text refers to."""
    closed = text.rfind(")") + 1
    return tuple(match[1] for match in _REFERENCE.finditer(text, 0, closed) if match[1] is not None)
