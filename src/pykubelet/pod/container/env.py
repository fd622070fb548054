"""The environment of a container: what its author wrote, what objects of the API server say, and where services are."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.env import ConfigMapKeySelector, EnvFromSource, EnvVarSource, SecretKeySelector
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod.container.downward_api import field_value, resource_value
from pykubelet.pod.container.failures import MissingObject, Unsupported

Environment = tuple[tuple[str, str], ...]
"""Names and values; each name once, in the order in which the container's author first wrote them."""

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
        if source.config_map_key_ref is not None:
            return _config_map_value(source.config_map_key_ref, namespace, objects)
        if source.secret_key_ref is not None:
            return _secret_value(source.secret_key_ref, namespace, objects)
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
    if source.config_map_ref is not None:
        config_map = _config_map(source.config_map_ref.name, source.config_map_ref.optional, namespace, objects)
        yield from config_map.data.items() if config_map else ()
    elif source.secret_ref is not None:
        name = source.secret_ref.name
        secret = _secret(name, source.secret_ref.optional, namespace, objects)
        for key, data in secret.data.items() if secret else ():
            yield key, _text(data, key, f"Secret {namespace}/{name}")


def _config_map_value(wanted: ConfigMapKeySelector, namespace: str, objects: EnvObjects | None) -> str | None:
    """None: it is not there, and need not be."""
    config_map = _config_map(wanted.name, wanted.optional, namespace, objects)
    if config_map is not None and wanted.key in config_map.data:
        return config_map.data[wanted.key]
    if wanted.optional:
        return None
    raise NotFound(f"couldn't find key {wanted.key} in ConfigMap {namespace}/{wanted.name}")


def _secret_value(wanted: SecretKeySelector, namespace: str, objects: EnvObjects | None) -> str | None:
    secret = _secret(wanted.name, wanted.optional, namespace, objects)
    if secret is not None and wanted.key in secret.data:
        return _text(secret.data[wanted.key], wanted.key, f"Secret {namespace}/{wanted.name}")
    if wanted.optional:
        return None
    raise NotFound(f"couldn't find key {wanted.key} in Secret {namespace}/{wanted.name}")


def _config_map(name: str, optional: bool | None, namespace: str, objects: EnvObjects | None) -> ConfigMap | None:
    if objects is None:
        raise Invalid(f"couldn't get configMap {namespace}/{name}: this node has no API server to get it from")
    found = objects.config_maps.get(name)
    if found is None and not optional:
        raise MissingObject("configmap", name)
    return found


def _secret(name: str, optional: bool | None, namespace: str, objects: EnvObjects | None) -> Secret | None:
    if objects is None:
        raise Invalid(f"couldn't get secret {namespace}/{name}: this node has no API server to get it from")
    found = objects.secrets.get(name)
    if found is None and not optional:
        raise MissingObject("secret", name)
    return found


def _text(data: bytes, key: str, where: str) -> str:
    """A secret may hold any bytes, a variable only text. What it is must not be told."""
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
