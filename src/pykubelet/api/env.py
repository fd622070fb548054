"""Where a container's environment comes from."""

from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import Struct, written


class ConfigMapKeySelector(Struct, frozen=True):
    name: str = ""
    key: str = written(str)
    optional: bool | None = None


class SecretKeySelector(Struct, frozen=True):
    name: str = ""
    key: str = written(str)
    optional: bool | None = None


class ObjectFieldSelector(Struct, frozen=True):
    api_version: str = ""
    field_path: str = written(str)


class ResourceFieldSelector(Struct, frozen=True):
    container_name: str = ""
    resource: str = written(str)
    divisor: Quantity | None = None


class FileKeySelector(Struct, frozen=True):
    volume_name: str = written(str)
    path: str = written(str)
    key: str = written(str)
    optional: bool | None = None


class EnvVarSource(Struct, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Struct, frozen=True):
    name: str = written(str)
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(Struct, frozen=True):
    name: str = ""
    optional: bool | None = None


class SecretEnvSource(Struct, frozen=True):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(Struct, frozen=True):
    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None
