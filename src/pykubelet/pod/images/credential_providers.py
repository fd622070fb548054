"""Credential provider plug-ins, as far as they can be decided: what their configuration may say, which images each is
asked about, what is said to it, what its answer means, and for how long that holds.

Nothing here ever shows what a plug-in answered: it is made of secrets.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import Document, read_document
from pykubelet.api.durations import parse_duration
from pykubelet.api.struct import Struct
from pykubelet.pod.images.keyring import Pattern, parse_pattern
from pykubelet.pod.ports.runtime import PullCredentials

KIND: Final = "CredentialProviderConfig"
_CONFIG_VERSIONS: Final = tuple(f"kubelet.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_VERSIONS: Final = tuple(f"credentialprovider.kubelet.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_EVERYTHING: Final = "<global>"
_SECRET: Final = re.compile(r'"(?:password|auth|token)"\s*:\s*"((?:[^"\\]|\\.)*)', re.IGNORECASE)
_WEB_TOKEN: Final = re.compile(r"eyJ[\w-]+\.[\w.-]+")
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\u00a0-\U0010ffff]+")
_SHORTEST_SECRET: Final = 4
_LONGEST_COMPLAINT: Final = 1000


# --- the configuration


class ExecEnvVar(Struct, frozen=True):
    name: str = ""
    value: str = ""


class CredentialProvider(Struct, frozen=True):
    """One of the providers, as its file has it."""

    name: str = ""
    match_images: tuple[str, ...] = ()
    default_cache_duration: str | None = None
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnvVar, ...] = ()
    token_attributes: Mapping[str, Any] | None = None


class CredentialProviderConfig(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    providers: tuple[CredentialProvider, ...] = ()


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A provider, checked."""

    name: str
    patterns: tuple[Pattern, ...]
    api_version: str = _VERSIONS[0]
    default_cache: float = 0.0
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def covers(self, repository: str) -> bool:
        return any(pattern.covers(repository) for pattern in self.patterns)


def read_plugins(files: Iterable[tuple[str, bytes]]) -> tuple[Plugin, ...]:
    """The providers of all files, in their order. Each file is a path, for complaints, and what it holds. Raises
    Invalid with the place of the fault."""
    plugins: list[Plugin] = []
    where: dict[str, str] = {}
    for path, data in files:
        document = read_document(path, data, KIND)
        config = _config(path, document)
        for index, provider in enumerate(config.providers):
            field = f"providers[{index}]"
            for part, reason in _faults(provider):
                raise document.fault(path, f"{field}.{part}", reason)
            if provider.name in where:
                reason = f"provider {provider.name!r} is in {where[provider.name]} already; each may be there once"
                raise document.fault(path, f"{field}.name", reason)
            where[provider.name] = path
            plugins.append(_plugin(provider))
    return tuple(plugins)


def _config(path: str, document: Document) -> CredentialProviderConfig:
    try:
        config = codec.convert(CredentialProviderConfig, document.value)
    except DecodeError as error:
        raise document.fault(path, error.field, error.reason) from None
    if config.kind != KIND or config.api_version not in _CONFIG_VERSIONS:
        found = f"apiVersion {config.api_version or '(none)'}, kind {config.kind or '(none)'}"
        wanted = f"apiVersion {_CONFIG_VERSIONS[0]}, kind {KIND}"
        raise document.fault(path, "", f"must be of {wanted}, but is of {found}")
    for field in _unknown_fields(document.value):
        raise document.fault(path, field, "there is no such field; is it a typing error?")
    if not config.providers:
        raise document.fault(path, "providers", "at least one provider is needed")
    return config


def _unknown_fields(value: Mapping[str, Any]) -> Iterator[str]:
    yield from _others("", value, CredentialProviderConfig)
    for index, provider in enumerate(value.get("providers") or ()):
        yield from _others(f"providers[{index}].", provider, CredentialProvider)
        for number, variable in enumerate(provider.get("env") or ()):
            yield from _others(f"providers[{index}].env[{number}].", variable, ExecEnvVar)


def _others(prefix: str, value: Mapping[str, Any], kind: type[Struct]) -> Iterator[str]:
    return (f"{prefix}{name}" for name in value if name not in kind.__struct_encode_fields__)


def _faults(provider: CredentialProvider) -> Iterator[tuple[str, str]]:
    """Field and reason of all that is wrong with one provider."""
    name = provider.name
    if not name:
        yield "name", "a provider needs the name of its program in the folder of plug-ins"
    elif "/" in name or name in (".", "..") or any(each.isspace() or each == "\0" for each in name):
        yield "name", f"{name[:80]!r} cannot be the name of a program: no path, no spaces, not . or .."
    if provider.api_version not in _VERSIONS:
        yield "apiVersion", f"must be one of {', '.join(_VERSIONS)}, but is {provider.api_version or '(none)'}"
    if not provider.match_images:
        yield "matchImages", "at least one pattern is needed, such as *.example.com"
    for index, pattern in enumerate(provider.match_images):
        try:
            parse_pattern(pattern)
        except ValueError as error:
            yield f"matchImages[{index}]", str(error)
    yield from _duration_faults(provider)
    yield from _program_faults(provider)
    if provider.token_attributes is not None:
        yield "tokenAttributes", "service account tokens for plug-ins are not supported by this version; take it away"


def _duration_faults(provider: CredentialProvider) -> Iterator[tuple[str, str]]:
    if provider.default_cache_duration is None:
        yield "defaultCacheDuration", "is missing; write for how long answers hold that do not say so, such as 10m"
    else:
        try:
            if parse_duration(provider.default_cache_duration) < 0:
                yield "defaultCacheDuration", "must not be negative"
        except ValueError as error:
            yield "defaultCacheDuration", str(error)


def _program_faults(provider: CredentialProvider) -> Iterator[tuple[str, str]]:
    for index, variable in enumerate(provider.env):
        if not variable.name or set("=\0") & set(variable.name) or "\0" in variable.value:
            yield f"env[{index}].name", "must be the name of an environment variable"
    for index, argument in enumerate(provider.args):
        if "\0" in argument:
            yield f"args[{index}]", "holds a null character, which no argument can"


def _plugin(provider: CredentialProvider) -> Plugin:
    return Plugin(
        name=provider.name,
        patterns=tuple(parse_pattern(each) for each in provider.match_images),
        api_version=provider.api_version,
        default_cache=parse_duration(provider.default_cache_duration or "0"),
        args=provider.args,
        env=tuple((each.name, each.value) for each in provider.env),
    )


# --- what is said to a plug-in, and what it answers


class AuthConfig(Struct, frozen=True):
    username: str = ""
    password: str = ""


class CredentialProviderResponse(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    cache_key_type: str = ""
    cache_duration: str | None = None
    auth: Mapping[str, AuthConfig] = {}

    def __repr__(self) -> str:
        return "CredentialProviderResponse(...)"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a plug-in said, in order."""

    entries: tuple[tuple[str, PullCredentials], ...] = ()
    """By what they are for: a registry, perhaps with a path."""
    cache_key: str = ""
    cache_for: float = 0.0
    """Seconds; 0: not at all."""


def request(plugin: Plugin, repository: str) -> bytes:
    """The question, for the program's standard input. `repository` is an image's full name without tag or digest."""
    return codec.encode({"kind": "CredentialProviderRequest", "apiVersion": plugin.api_version, "image": repository})


def read_answer(plugin: Plugin, repository: str, output: bytes) -> Answer:
    """Raises ValueError with a reason that holds nothing of what was said."""
    try:
        response = codec.decode(CredentialProviderResponse, output)
    except DecodeError:
        raise ValueError("printed something else than a CredentialProviderResponse in JSON") from None
    if response.kind != "CredentialProviderResponse" or response.api_version != plugin.api_version:
        raise ValueError(f"printed something else than a CredentialProviderResponse of {plugin.api_version}")
    keys = {"Image": repository, "Registry": registry_of(repository), "Global": _EVERYTHING}
    if response.cache_key_type not in keys:
        raise ValueError(f"gave no cacheKeyType that is one of {', '.join(keys)}")
    try:
        seconds = plugin.default_cache if response.cache_duration is None else parse_duration(response.cache_duration)
    except ValueError:
        raise ValueError("gave a cacheDuration that is no duration, such as 10m") from None
    entries = (
        (key, PullCredentials(username=each.username, password=each.password)) for key, each in response.auth.items()
    )
    return Answer(entries=tuple(entries), cache_key=keys[response.cache_key_type], cache_for=max(seconds, 0.0))


def cache_keys(repository: str) -> tuple[str, ...]:
    """Under which an earlier answer may hold for this image too, the closest first."""
    return repository, registry_of(repository), _EVERYTHING


def registry_of(repository: str) -> str:
    return repository.partition("/")[0]


def without_secrets(plugin: Plugin, complaints: bytes, output: bytes) -> str:
    """What a plug-in complained of, short enough for the log, without anything that it answered or was told."""
    text = _UNPRINTABLE.sub(" ", complaints.decode(errors="replace")).strip()
    for secret in sorted({*_secrets(output), *(value for _, value in plugin.env)}, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[hidden]")
    text = _WEB_TOKEN.sub("[hidden]", text)
    return text if len(text) <= _LONGEST_COMPLAINT else f"...{text[-_LONGEST_COMPLAINT:]}"


def _secrets(output: bytes) -> Iterator[str]:
    """Also of an answer that cannot be used as a whole."""
    for text in _SECRET.findall(output.decode(errors="replace")):
        yield text
        try:
            value = codec.decode_any(f'"{text}"')
        except DecodeError:
            continue
        if isinstance(value, str):
            yield value
