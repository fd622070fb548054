"""What the messages of runtimes, registries, schedulers and programs mean: their words, sorted into causes.

They come from many programs and change with their versions: what is not known here is told as it came.
"""

import re
from typing import Final

from pykubelet.pod.story import causes as c

_DENIED: Final = re.compile(
    r"pull access (is )?denied|unauthorized|authorization failed|authentication required|no basic auth"
    r"|insufficient_scope|\b40[13]\b|DENIED:",
    re.IGNORECASE,
)
_NO_REPOSITORY: Final = re.compile(r"NAME_UNKNOWN|name unknown|repository name not known|does not exist", re.IGNORECASE)
_NO_TAG: Final = re.compile(r"manifest[ _]unknown|manifest .*not found|: not found|is not there|404", re.IGNORECASE)
_AWAY: Final = re.compile(
    r"RegistryUnavailable|no such host|connection refused|i/o timeout|timed out|takes too long|no route to host"
    r"|cannot be reached|temporary failure in name resolution|network is unreachable|gives no answer|TLS handshake"
    r"|certificate",
    re.IGNORECASE,
)
_OBJECT: Final = re.compile(r'\b(configmap|secret)s? "([^"]+)" not found', re.IGNORECASE)
_KEY: Final = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) ([^/\s]+)/(\S+)")
_KEY_OF_VOLUME: Final = re.compile(r"references non-existent (config|secret) key: (\S+)")
_VOLUME: Final = re.compile(r'for volume "([^"]+)"\s*: (.*)', re.DOTALL)
_USER: Final = re.compile(
    r"runAsNonRoot|non-root policy|invalid user id|unable to find (user|group)|no users found|user or group .* not in"
    r"|runAs(User|Group)|no matching entries in passwd",
    re.IGNORECASE,
)
_COMMAND: Final = re.compile(
    r"executable file not found|no such file or directory|is not there|not an executable|exec format error"
    r"|permission denied|cannot be found|not found in|there is no (program|command|file)|has no default command"
    r"|no command specified|cannot (be )?(run|execute)",
    re.IGNORECASE,
)
_COMMAND_NAME: Final = re.compile(r'exec: \\?"([^"\\]+)\\?"')
_PORT: Final = re.compile(
    r"address already in use|EADDRINUSE|port is already allocated|only one usage of each socket", re.IGNORECASE
)
_PORT_NUMBER: Final = re.compile(r"(?::|port\D{0,3})(\d{2,5})\b", re.IGNORECASE)
_READ_ONLY: Final = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_PERMISSION: Final = re.compile(r"permission denied|EACCES|operation not permitted", re.IGNORECASE)
_BINDING: Final = re.compile(r"\b(bind|listen)", re.IGNORECASE)
_CONNECTION: Final = re.compile(
    r"connection (refused|reset)|no such file or directory|unavailable|does not answer|deadline exceeded"
    r"|connection error|transport|broken pipe",
    re.IGNORECASE,
)
_INSUFFICIENT: Final = re.compile(r"Insufficient ([\w./-]+\w)")
_NO_CLAIM: Final = re.compile(r'resourceclaim "([^"]+)" (?:not found|is being deleted)')
_NO_CLASS: Final = re.compile(r"request [\w./-]+: device class ([\w.-]*\w) does not exist")
_NO_DEVICES: Final = re.compile(
    r"cannot allocate all claims|ResourceClaim not created yet|resourceclaim not available on the node"
    r'|timed out trying to allocate devices|"DynamicResources"'
)
_TAINT: Final = re.compile(r"untolerated taint(?:\(s\))? ?\{([^}]*)\}|untolerated taint\(s\)")
_KINDS: Final[dict[str, c.ObjectKind]] = {"configmap": "ConfigMap", "config": "ConfigMap", "secret": "Secret"}


def of_pull(container: str, image: str, message: str, *, has_secret: bool) -> c.OfImage:
    """Why an image cannot be pulled."""
    if _DENIED.search(message):
        return c.ImageDenied(container=container, image=image, has_secret=has_secret, message=message)
    if _NO_REPOSITORY.search(message):
        return c.ImageNotFound(container=container, image=image, message=message)
    if _NO_TAG.search(message):
        return c.TagNotFound(container=container, image=image, message=message)
    if _AWAY.search(message):
        return c.RegistryUnreachable(container=container, image=image, message=message)
    return c.ImagePullFailed(container=container, image=image, message=message)


def of_object(message: str, namespace: str) -> c.ObjectNotFound | c.KeyNotFound | None:
    """A config map, a secret or a key of them that is not there."""
    if found := _KEY.search(message):
        key, kind, where, name = found.groups()
        return c.KeyNotFound(kind=_KINDS[kind.lower()], name=name, namespace=where, key=key)
    if found := _OBJECT.search(message):
        name = found[2].rpartition("/")[2]
        return c.ObjectNotFound(kind=_KINDS[found[1].lower()], name=name, namespace=namespace)
    return None


def key_of_volume(message: str) -> tuple[c.ObjectKind, str] | None:
    """Kind and key: the volume's source says of which object."""
    found = _KEY_OF_VOLUME.search(message)
    return (_KINDS[found[1]], found[2]) if found else None


def of_volume(message: str) -> c.VolumeFailed | None:
    found = _VOLUME.search(message)
    return c.VolumeFailed(volume=found[1], message=found[2].strip()) if found else None


def of_creation(container: str, reason: str, message: str, command: str) -> c.OfContainer:
    """Why a container cannot be made or started."""
    if _USER.search(message):
        return c.WrongUser(container=container, message=message)
    if _COMMAND.search(message):
        name = _COMMAND_NAME.search(message)
        return c.CommandNotFound(container=container, command=name[1] if name else command, message=message)
    return c.ContainerNotMade(container=container, reason=reason, message=message)


def is_port_taken(words: str) -> bool:
    return bool(_PORT.search(words))


def port_in(words: str) -> str:
    """The number that stands by the words, if any does."""
    for line in words.splitlines():
        if _PORT.search(line) and (found := _PORT_NUMBER.search(line)):
            return found[1]
    return ""


def is_read_only(words: str) -> bool:
    return bool(_READ_ONLY.search(words))


def is_permission(words: str) -> bool:
    return bool(_PERMISSION.search(words))


def is_binding(words: str) -> bool:
    """Whether it was a port that a program was denied, and not a file."""
    return bool(_BINDING.search(words))


def is_connection(message: str) -> bool:
    return bool(_CONNECTION.search(message))


def of_scheduler(reason: str, message: str, gates: tuple[str, ...]) -> c.Unplaced:
    """A scheduler may have several reasons for its nodes: what there is too little of comes first, for a taint is put
    there on purpose."""
    if reason == "SchedulingGated":
        return c.SchedulingGated(gates=gates)
    if resources := tuple(dict.fromkeys(_INSUFFICIENT.findall(message))):
        return c.NoRoom(resources=resources, message=message)
    if "Too many pods" in message:
        return c.NoRoom(resources=("pods",), message=message)
    claim, device_class = _NO_CLAIM.search(message), _NO_CLASS.search(message)
    if claim or device_class or _NO_DEVICES.search(message):
        missing = claim[1] if claim else "", device_class[1] if device_class else ""
        return c.NoDevices(claim=missing[0], device_class=missing[1], message=message)
    if _TAINT.search(message):
        taints = tuple(dict.fromkeys(found.strip() for found in _TAINT.findall(message) if found))
        return c.UntoleratedTaint(taints=taints, message=message)
    return c.NotScheduled(message=message)


def last_line(words: str) -> str:
    """The last one that says anything: that is where programs say what killed them."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return "".join(each if each.isprintable() else "?" for each in lines[-1][:200]) if lines else ""
