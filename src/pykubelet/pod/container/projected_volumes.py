"""The files of the volumes that an agent writes itself: which there are, with what content, mode and owner.

Config maps, secrets, a pod's own fields and tokens become files by the same rules whether they are a volume of their
own or a part of a projected one.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.struct import changed
from pykubelet.api.volumes import DownwardAPIVolumeFile, KeyToPath, Volume
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.downward_api import field_value, resource_value

DEFAULT_MODE: Final = 0o644
_OWNER_ONLY: Final = 0o600
_LONGEST_PATH: Final = 4096
_LONGEST_NAME: Final = 255
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


class FileProjection(Struct, frozen=True, kw_only=True):
    data: bytes = b""
    mode: int = DEFAULT_MODE
    user: int | None = None
    """Who owns the file; None: whoever writes it."""

    def __repr__(self) -> str:
        return f"FileProjection({len(self.data)} bytes, mode={self.mode:o})"  # what is in it may be secret


Files = Mapping[str, FileProjection]
"""By path below the volume."""


# --- from objects to files


def config_map_files(
    config_map: ConfigMap, items: Iterable[KeyToPath], default_mode: int | None, *, optional: bool
) -> Files:
    """All keys, or those of `items`. Raises Invalid for a key that is not there, unless it is optional."""
    content = {key: text.encode() for key, text in config_map.data.items()}
    # Of a key that is both text and binary, all keys together show the binary, an item the text: as upstream does.
    if not items:
        return _whole({**content, **config_map.binary_data}, default_mode)
    chosen = {**config_map.binary_data, **content}
    return _chosen(chosen, items, default_mode, optional, "configmap references non-existent config key")


def secret_files(secret: Secret, items: Iterable[KeyToPath], default_mode: int | None, *, optional: bool) -> Files:
    """All keys, or those of `items`. Raises Invalid for a key that is not there, unless it is optional."""
    if not items:
        return _whole(secret.data, default_mode)
    return _chosen(secret.data, items, default_mode, optional, "references non-existent secret key")


def downward_files(
    items: Iterable[DownwardAPIVolumeFile], pod: Pod, default_mode: int | None, allocatable: ResourceList
) -> Files:
    """What the pod may learn of itself, as files. Raises Invalid."""
    return {
        posixpath.normpath(item.path): FileProjection(
            data=_downward_value(item, pod, allocatable).encode(), mode=_mode(item.mode, default_mode)
        )
        for item in items
    }


def token_file(pod: Pod, path: str, token: str, default_mode: int | None) -> Files:
    """A token is for those alone who run in the pod, where it is known who that is."""
    user = fs_user(pod)
    is_known = user is not None or fs_group(pod) is not None
    mode = _OWNER_ONLY if is_known else _mode(None, default_mode)
    return {path: FileProjection(data=token.encode(), mode=mode, user=user)}


def checked_files(files: Files) -> Files:
    """The same with tidy paths. Raises Invalid for a path that would lead out of the volume."""
    return {checked_path(path): file for path, file in files.items()}


def checked_path(path: str) -> str:
    if not path:
        raise Invalid("invalid path: must not be empty")
    if path.startswith("/"):
        raise Invalid(f"invalid path: must be relative path: {path}")
    if "\0" in path:
        raise Invalid("invalid path: must not contain a NUL character")
    if len(path.encode()) > _LONGEST_PATH:
        raise Invalid(f"invalid path: must be less than or equal to {_LONGEST_PATH} characters")
    steps = path.split("/")
    if ".." in steps:
        raise Invalid(f"invalid path: must not contain '..': {path}")
    if any(len(step.encode()) > _LONGEST_NAME for step in steps):
        raise Invalid(f"invalid path: filenames must be less than or equal to {_LONGEST_NAME} characters")
    clean = posixpath.normpath(path)
    if clean.startswith(".."):  # those names belong to whoever writes the volume
        raise Invalid(f"invalid path: must not start with '..': {path}")
    if clean == ".":
        raise Invalid(f"invalid path: must name a file: {path}")
    return clean


def _whole(content: Mapping[str, bytes], default_mode: int | None) -> Files:
    return {key: FileProjection(data=data, mode=_mode(None, default_mode)) for key, data in content.items()}


def _chosen(
    content: Mapping[str, bytes], items: Iterable[KeyToPath], default_mode: int | None, optional: bool, missing: str
) -> Files:
    files = {}
    for item in items:
        if item.key in content:
            files[item.path] = FileProjection(data=content[item.key], mode=_mode(item.mode, default_mode))
        elif not optional:
            raise Invalid(f"{missing}: {item.key}")
    return files


def _mode(own: int | None, default: int | None) -> int:
    if own is not None:
        return own
    return DEFAULT_MODE if default is None else default


# --- what a pod may learn of itself


def _downward_value(item: DownwardAPIVolumeFile, pod: Pod, allocatable: ResourceList) -> str:
    if item.field_ref is not None:
        match item.field_ref.field_path:
            case "metadata.labels":
                return lines(pod.metadata.labels)
            case "metadata.annotations":
                return lines(pod.metadata.annotations)
            case path if path.startswith("metadata."):
                return field_value(item.field_ref, pod)
            case path:  # an address may come later than the file, so no file tells it
                raise Invalid(f"unsupported fieldPath: {path}")
    if item.resource_field_ref is not None:
        name = item.resource_field_ref.container_name
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            if container.name == name:
                # Of any container that is named here, unlike in a variable, what it may use at most can be told.
                return resource_value(changed(item.resource_field_ref, container_name=""), pod, container, allocatable)
        raise Invalid(f"container {name} not found")
    return ""


def lines(table: Mapping[str, str]) -> str:
    """Labels or annotations: `key="value"`, one on each line, in the order of the keys' bytes."""
    return "\n".join(f"{key}={go_quoted(table[key])}" for key in sorted(table, key=str.encode))


def go_quoted(text: str) -> str:
    """In double quotes, with Go's escapes: programs in pods read these files with Go's rules."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


# --- whose the files are


def fs_group(pod: Pod) -> int | None:
    context = pod.spec.security_context
    return None if context is None else context.fs_group


def fs_user(pod: Pod) -> int | None:
    """The user as whom every container runs; None when they differ, or one of them does not say."""
    users = {_run_as_user(pod, container) for container in _everyone(pod)}
    return next(iter(users)) if len(users) == 1 else None


def _run_as_user(pod: Pod, container: Container) -> int | None:
    own, shared = container.security_context, pod.spec.security_context
    if own is not None and own.run_as_user is not None:
        return own.run_as_user
    return None if shared is None else shared.run_as_user


# --- what else has to be in the volume, and what is asked of others


def nested_mount_points(pod: Pod, name: str) -> tuple[str, ...]:
    """Where other volumes are mounted inside of this one: the runtime cannot make folders in what is read-only."""
    return tuple(dict.fromkeys(place for container in _everyone(pod) for place in _nested(container, name)))


def _nested(container: Container, name: str) -> Iterator[str]:
    points = sorted(posixpath.normpath(mount.mount_path) for mount in container.volume_mounts)
    for mount in container.volume_mounts:
        own = posixpath.normpath(mount.mount_path)
        if mount.name != name:
            continue
        if own == ".." or own.startswith("../"):
            raise Invalid(f"invalid container mount point {own}")
        found: list[str] = []
        for point in points:
            is_inside = point.startswith(own + "/")
            if is_inside and not any(point == outer or point.startswith(outer + "/") for outer in found):
                found.append(point)
                yield point[len(own) + 1 :]


def is_written_by_us(volume: Volume) -> bool:
    """Whether the volume's files are made by the agent: then no container may change them."""
    sources = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(source is not None for source in sources)


def needs_api(volume: Volume) -> str:
    """What of the volume comes from an API server; empty: nothing."""
    if volume.config_map is not None:
        return f'config map "{volume.config_map.name}"'
    if volume.secret is not None:
        return f'secret "{volume.secret.secret_name}"'
    for part in volume.projected.sources if volume.projected is not None else ():
        if part.config_map is not None:
            return f'config map "{part.config_map.name}"'
        if part.secret is not None:
            return f'secret "{part.secret.name}"'
        if part.service_account_token is not None:
            return "a service-account token"
    return ""


def _everyone(pod: Pod) -> tuple[Container, ...]:
    spec = pod.spec
    return (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
