"""The environment of a container: what its author wrote, what objects of the API server say, and where services are."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.env import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVarSource,
    SecretEnvSource,
    SecretKeySelector,
)
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod.container.downward_api import field_value, resource_value
from pykubelet.pod.container.failures import MissingObject, Unsupported

Environment = tuple[tuple[str, str], ...]
"""Names and values; each name once, in the order in which the container's author first wrote them."""

_Reference = ConfigMapEnvSource | ConfigMapKeySelector | SecretEnvSource | SecretKeySelector
_OF_SECRETS: Final = (SecretEnvSource, SecretKeySelector)
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


class EnvObjects(Struct, frozen=True, kw_only=True):
    """What a container's environment is made of besides the pod. By name; None: there is no such object."""

    config_maps: Mapping[str, ConfigMap | None] = {}
    secrets: Mapping[str, Secret | None] = {}
    services: Mapping[str, str] = {}
    """The variables that tell where services are."""


def wanted_objects(container: Container) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the config maps and of the secrets that the environment needs, each once."""
    config_maps: dict[str, None] = {}
    secrets: dict[str, None] = {}
    for whole in container.env_from:
        if whole.config_map_ref is not None:
            config_maps[whole.config_map_ref.name] = None
        elif whole.secret_ref is not None:
            secrets[whole.secret_ref.name] = None
    for variable in container.env:
        source = variable.value_from
        if variable.value or source is None:
            continue
        if source.config_map_key_ref is not None:
            config_maps[source.config_map_key_ref.name] = None
        elif source.secret_key_ref is not None:
            secrets[source.secret_key_ref.name] = None
    return tuple(config_maps), tuple(secrets)


def environment(
    pod: Pod,
    container: Container,
    *,
    allocatable: ResourceList,
    pod_ips: tuple[str, ...] = (),
    host_ips: tuple[str, ...] = (),
    objects: EnvObjects | None = None,
) -> Environment:
    """Every variable of a container, with `$(NAME)` replaced by the variables before it, or by those of services.

    `allocatable` is what the node has for pods: the answer for a container that asks for a limit which it has not.
    `objects` holds all that `wanted_objects` names; None: there is no API server to get them from.
    Raises NotFound for an object or a key that is not there, Unsupported, Invalid; the container must not run then.
    """
    namespace = pod.metadata.namespace

    def looked_up(name: str, source: EnvVarSource) -> str | None:
        try:
            if source.field_ref is not None:
                return field_value(source.field_ref, pod, pod_ips=pod_ips, host_ips=host_ips)
            if source.resource_field_ref is not None:
                return resource_value(source.resource_field_ref, pod, container, allocatable)
        except Invalid as error:
            raise Invalid(f'env "{name}": {error}') from None
        if (wanted := source.config_map_key_ref or source.secret_key_ref) is not None:
            return _value(wanted, namespace, objects)
        if source.file_key_ref is not None:
            raise Unsupported(f'env "{name}"', "fileKeyRef")
        return ""

    services = objects.services if objects is not None else {}
    values = {
        f"{source.prefix}{key}": value
        for source in container.env_from
        for key, value in _all_of(source, namespace, objects)
    }
    for variable in container.env:
        if variable.value or variable.value_from is None:
            values[variable.name] = expand(variable.value, {**services, **values} if services else values)
        elif (found := looked_up(variable.name, variable.value_from)) is not None:
            values[variable.name] = found
    return (*values.items(), *((name, value) for name, value in services.items() if name not in values))


def _all_of(source: EnvFromSource, namespace: str, objects: EnvObjects | None) -> Iterator[tuple[str, str]]:
    reference = source.config_map_ref or source.secret_ref
    if reference is not None:
        for key, data in _content(reference, namespace, objects).items():
            yield key, _text(data, key, f"Secret {namespace}/{reference.name}")


def _value(wanted: ConfigMapKeySelector | SecretKeySelector, namespace: str, objects: EnvObjects | None) -> str | None:
    """None: it is not there, and need not be."""
    content = _content(wanted, namespace, objects)
    where = f"{'Secret' if isinstance(wanted, _OF_SECRETS) else 'ConfigMap'} {namespace}/{wanted.name}"
    if wanted.key in content:
        return _text(content[wanted.key], wanted.key, where)
    if wanted.optional:
        return None
    raise NotFound(f"couldn't find key {wanted.key} in {where}")


def _content(wanted: _Reference, namespace: str, objects: EnvObjects | None) -> Mapping[str, str] | Mapping[str, bytes]:
    """Of a config map or a secret; nothing of one that is not there and need not be."""
    is_secret, name = isinstance(wanted, _OF_SECRETS), wanted.name
    if objects is None:
        what = f"{'secret' if is_secret else 'configMap'} {namespace}/{name}"
        raise Invalid(f"couldn't get {what}, no kubeClient defined")
    found = objects.secrets.get(name) if is_secret else objects.config_maps.get(name)
    if found is None and not wanted.optional:
        raise MissingObject("secret" if is_secret else "configmap", name)
    return found.data if found is not None else {}


def _text(data: str | bytes, key: str, where: str) -> str:
    """A secret may hold any bytes, a variable only text. What it is must not be told."""
    if isinstance(data, str):
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"key {key} of {where} is not UTF-8 text: mount it as a file instead") from None
    if "\0" in text:
        raise Invalid(
            f"key {key} of {where} has a NUL character, which no variable can hold: mount it as a file instead"
        )
    return text


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
