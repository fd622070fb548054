"""What a recording does not tell: the content of secrets and config maps, credentials, and what people write into pods
where a password may stand. In its place stands something that is equal where the original was, and tells nothing: so
decisions stay the same.
"""

import base64
import binascii
import hmac
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.container import Container
from pykubelet.api.handlers import HTTPGetAction, LifecycleHandler, Probe
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.api.volumes import Volume
from pykubelet.pod.images.pull_secrets import PULL_SECRET_KEYS
from pykubelet.pod.lifecycle.pod_update import Applied, Listed, Restored
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import PullCredentials

H = TypeVar("H", Probe, LifecycleHandler)

_SHORTEST: Final = 8
_LONG: Final = 20
_MOST_LEARNED: Final = 1000
_PREFIX: Final = "hidden-"
_SAYS_SOMETHING: Final = re.compile(rb'"(?:message|output|error|text)":"[^"]')
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Hiding:
    """With a key that nobody else has: whoever guesses a value cannot check it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._learned: OrderedDict[bytes, bytes] = OrderedDict()
        """Secrets as they would stand in a line, and what stands there instead."""
        self._words: OrderedDict[bytes, bytes] = OrderedDict()
        """The same of what people have written into commands, which stands only in what is said of these."""

    def value(self, value: Any) -> Any:
        """What has come from outside, as it may be written down."""
        match value:
            case Pod():
                return self._pod(value)
            case Applied(pod):
                return Applied(self._pod(pod))
            case Listed(pods):
                return changed(value, pods=tuple(map(self._pod, pods)))
            case Restored(pods):
                return Restored(tuple(map(self._pod, pods)))
            case Secret():
                return self._secret(value)
            case ConfigMap():
                data = {key: self.text(each) for key, each in value.data.items()}
                binary = {key: self._bytes(each) for key, each in value.binary_data.items()}
                return changed(value, metadata=self._bare(value.metadata), data=data, binary_data=binary)
            case PullCredentials():
                return self._credentials(value)
            case ContainerDevices():
                env = {name: self.text(each) for name, each in value.env.items()}
                annotations = {name: self.text(each) for name, each in value.annotations.items()}
                return changed(value, env=env, annotations=annotations)
            case tuple():
                return tuple(map(self.value, value))
        return value

    def text(self, text: str) -> str:
        """Equal for equal texts. As long as the original, where that is long enough: texts are cut off somewhere."""
        if not text:
            return text
        digest = hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256").hex()
        length = max(len(text), 4)
        return (_PREFIX + digest)[:length].ljust(length, "-") if length >= _LONG else digest[:length]

    def line(self, line: bytes) -> bytes:
        """Without the secrets that others may repeat, such as a program in its last words."""
        for secret, instead in self._learned.items():
            if secret in line:
                line = line.replace(secret, instead)
        if self._words and _SAYS_SOMETHING.search(line):
            for word, instead in self._words.items():
                if word in line:
                    line = line.replace(word, instead)
        return line

    # --- inside

    def _learn(self, secret: str) -> str:
        instead = self.text(secret)
        if _is_telling(secret):
            _remember(self._learned, secret, instead)
        return instead

    def _learn_word(self, word: str) -> str:
        """Others quote commands in their messages, each in its own way."""
        instead = self.text(word)
        if _is_telling(word):
            go = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            for form in dict.fromkeys((word, repr(word)[1:-1], go)):
                _remember(self._words, form, instead)
        return instead

    def _bytes(self, data: bytes) -> bytes:
        try:
            return self._learn(data.decode()).encode()
        except UnicodeDecodeError:
            return b"\xff" + self.text(data.hex()).encode()

    def _bare(self, meta: Any) -> Any:
        """Annotations may hold anything. Those of Kubernetes itself are decided by, but for the copy of all else."""
        annotations = {
            name: each if _is_kubernetes_own(name) else self.text(each) for name, each in meta.annotations.items()
        }
        return changed(meta, annotations=annotations) if annotations else meta

    # --- pods

    def _pod(self, pod: Pod) -> Pod:
        spec = changed(
            pod.spec,
            containers=tuple(map(self._container, pod.spec.containers)),
            init_containers=tuple(map(self._container, pod.spec.init_containers)),
            ephemeral_containers=tuple(map(self._container, pod.spec.ephemeral_containers)),
            volumes=tuple(map(self._volume, pod.spec.volumes)),
        )
        return changed(pod, metadata=self._bare(pod.metadata), spec=spec)

    def _volume(self, volume: Volume) -> Volume:
        """What drivers are told may be anything, and nothing is decided by it."""
        if (csi := volume.csi) is not None and csi.volume_attributes:
            told = {name: self.text(each) for name, each in csi.volume_attributes.items()}
            return changed(volume, csi=changed(csi, volume_attributes=told))
        if (flex := volume.flex_volume) is not None and flex.options:
            told = {name: self.text(each) for name, each in flex.options.items()}
            return changed(volume, flex_volume=changed(flex, options=told))
        return volume

    def _container(self, container: Any) -> Any:
        found: Container = container
        changes: dict[str, Any] = {}
        if found.env:
            hide = self._learn_word if _expands(found) else self.text
            changes["env"] = tuple(replace(each, value=hide(each.value)) for each in found.env)
        if found.command:
            changes["command"] = (*found.command[:1], *map(self.text, found.command[1:]))
        if found.args:
            changes["args"] = tuple(map(self.text, found.args))
        for name in ("liveness_probe", "readiness_probe", "startup_probe"):
            if (probe := getattr(found, name)) is not None:
                changes[name] = self._handler(probe)
        if (hooks := found.lifecycle) is not None:
            changes["lifecycle"] = changed(
                hooks,
                post_start=self._handler(hooks.post_start) if hooks.post_start else None,
                pre_stop=self._handler(hooks.pre_stop) if hooks.pre_stop else None,
            )
        return changed(found, **changes) if changes else found

    def _handler(self, handler: H) -> H:
        if handler.exec is not None:
            command: tuple[str, ...] = handler.exec.command
            hidden = (*command[:1], *map(self._learn_word, command[1:]))
            return changed(handler, exec=changed(handler.exec, command=hidden))
        if handler.http_get is not None:
            return changed(handler, http_get=self._request(handler.http_get))
        return handler

    def _request(self, request: HTTPGetAction) -> HTTPGetAction:
        headers = tuple(replace(each, value=self.text(each.value)) for each in request.http_headers)
        path, mark, query = request.path.partition("?")
        return changed(request, http_headers=headers, path=f"{path}{mark}{self._learn_word(query)}")

    # --- secrets

    def _secret(self, secret: Secret) -> Secret:
        logins = PULL_SECRET_KEYS.get(secret.type)
        data = {
            key: self._logins(each, secret.type) if key == logins else self._bytes(each)
            for key, each in secret.data.items()
        }
        strings = {key: self._learn(each) for key, each in secret.string_data.items()}
        return changed(secret, metadata=self._bare(secret.metadata), data=data, string_data=strings)

    def _logins(self, data: bytes, kind: str) -> bytes:
        """Who could log in where, but not as whom: which credentials are tried depends on the servers."""
        try:
            value = codec.decode_any(data)
        except DecodeError:
            return b"hidden"
        is_new = kind.endswith("dockerconfigjson")
        servers = value.get("auths") if isinstance(value, dict) and is_new else value
        if not isinstance(servers, dict):
            return b"null"
        hidden = {name: self._login(each) if isinstance(each, Mapping) else None for name, each in servers.items()}
        return codec.encode({"auths": hidden} if is_new else hidden)

    def _login(self, entry: Mapping[str, Any]) -> dict[str, str]:
        found = {name: self._learn(str(entry[name])) for name in ("password", "identitytoken") if entry.get(name)}
        if entry.get("username"):
            found["username"] = self.text(str(entry["username"]))
        if entry.get("auth"):
            found["auth"] = self._auth(str(entry["auth"]))
        return found

    def _auth(self, text: str) -> str:
        text = text.strip().replace("\n", "").replace("\r", "")
        self._learn(text)
        try:
            decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
        except (binascii.Error, UnicodeError, ValueError):
            return "!"
        user, colon, password = decoded.partition(":")
        return base64.b64encode(f"{self.text(user)}{colon}{self._learn(password)}".encode()).decode()

    def _credentials(self, credentials: PullCredentials) -> PullCredentials:
        return changed(
            credentials,
            username=self.text(credentials.username),
            password=self._learn(credentials.password),
            token=self._learn(credentials.token),
        )


def _remember(learned: "OrderedDict[bytes, bytes]", text: str, instead: str) -> None:
    key = msgspec.json.encode(text)[1:-1]
    learned[key] = instead.encode()
    learned.move_to_end(key)
    if len(learned) > _MOST_LEARNED:
        learned.popitem(last=False)


def _expands(container: Container) -> bool:
    """Whether variables get into what is run against it."""
    hooks = container.lifecycle
    handlers: tuple[Probe | LifecycleHandler | None, ...] = (
        container.liveness_probe, container.readiness_probe, container.startup_probe,
        hooks.post_start if hooks else None, hooks.pre_stop if hooks else None,
    )  # fmt: skip
    return any("$(" in word for each in handlers if each and each.exec for word in each.exec.command)


def _is_telling(secret: str) -> bool:
    """Whether it can only be a secret, wherever it stands. A word such as `postgres` may be a pod's name, too."""
    return len(secret) >= _LONG or (len(secret) >= _SHORTEST and not (secret.isalpha() or secret.isdecimal()))


def _is_kubernetes_own(annotation: str) -> bool:
    domain = annotation.partition("/")[0]
    return annotation != _LAST_APPLIED and domain.endswith(("kubernetes.io", "k8s.io"))
