"""A container's environment: names, values, and the things that values can be taken from."""

from collections.abc import Sequence

from msgspec.structs import astuple

from pykubelet.api.env import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    SecretKeySelector,
)
from pykubelet.api.field_errors import invalid, not_found, required
from pykubelet.api.pod import PodSpec
from pykubelet.api.validation import names
from pykubelet.api.validation.downward import ENV_FIELDS, validate_field_ref, validate_resource_field_ref
from pykubelet.api.validation.options import Errors, every_container
from pykubelet.api.validation.rules import needed, no_backsteps, spelled


def validate_env(variables: Sequence[EnvVar], path: str) -> Errors:
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        yield from needed(f"{place}.name", variable.name, names.env_name)
        if variable.value_from is not None:
            yield from _value_from(variable.value, variable.value_from, f"{place}.valueFrom")


def validate_env_from(sources: Sequence[EnvFromSource], path: str) -> Errors:
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        if source.prefix:
            yield from spelled(f"{place}.prefix", source.prefix, names.env_name(source.prefix))
        if source.config_map_ref is not None:
            yield from needed(f"{place}.configMapRef.name", source.config_map_ref.name, names.name_prefix)
        if source.secret_ref is not None:
            yield from needed(f"{place}.secretRef.name", source.secret_ref.name, names.name_prefix)
        if (source.config_map_ref is None) == (source.secret_ref is None):
            yield invalid(path, None, "must have exactly one of configMapRef and secretRef in each entry")


def validate_file_key_volumes(spec: PodSpec, path: str) -> Errors:
    """A variable that is read from a file needs an emptyDir volume to read it from."""
    volumes = {volume.name: volume for volume in spec.volumes}
    for container, place in every_container(spec, path):
        for index, variable in enumerate(container.env):
            if variable.value_from is None or variable.value_from.file_key_ref is None:
                continue
            name = variable.value_from.file_key_ref.volume_name
            field = f"{place}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                yield not_found(field, name, "must name a volume of this pod")
            elif volumes[name].empty_dir is None:
                yield invalid(field, name, "must name a volume of the kind emptyDir")


def _value_from(value: str, source: EnvVarSource, path: str) -> Errors:
    if source.field_ref is not None:
        yield from validate_field_ref(source.field_ref, ENV_FIELDS, f"{path}.fieldRef")
    if source.resource_field_ref is not None:
        yield from validate_resource_field_ref(source.resource_field_ref, f"{path}.resourceFieldRef")
    if source.config_map_key_ref is not None:
        yield from _key_ref(source.config_map_key_ref, f"{path}.configMapKeyRef")
    if source.secret_key_ref is not None:
        yield from _key_ref(source.secret_key_ref, f"{path}.secretKeyRef")
    if source.file_key_ref is not None:
        yield from _file_key_ref(source.file_key_ref, f"{path}.fileKeyRef")
    count = sum(each is not None for each in astuple(source))
    if count == 0:
        yield invalid(path, None, "must have one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef")
    elif value:
        yield invalid(path, None, "must not be set beside a value: remove one of them")
    elif count > 1:
        yield invalid(path, None, "must have only one source")


def _key_ref(selector: ConfigMapKeySelector | SecretKeySelector, path: str) -> Errors:
    yield from spelled(f"{path}.name", selector.name, names.dns_subdomain(selector.name))
    yield from needed(f"{path}.key", selector.key, names.config_key)


def _file_key_ref(selector: FileKeySelector, path: str) -> Errors:
    yield from needed(f"{path}.key", selector.key, names.env_name)
    yield from needed(f"{path}.volumeName", selector.volume_name, names.dns_label)
    if selector.path:
        yield from no_backsteps(f"{path}.path", selector.path)
    else:
        yield required(f"{path}.path")
