"""Which API server to talk to, and as whom: the current context of a kubeconfig.

What comes out is settled: one cluster, one user, absolute paths. What is wrong with a file is said here, with a remedy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pykubelet.api import codec
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.struct import Struct, changed
from pykubelet.kube.errors import KubeconfigError

_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


class _Private(Struct, frozen=True):
    """A Struct that may hold credentials: its repr says which fields are set, never to what."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(codec.to_builtins(self))})"


def _spelling(attribute: str) -> str:
    return "tokenFile" if attribute == "token_file" else attribute.rstrip("_").replace("_", "-")


class NamedExtension(Struct, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(_Private, frozen=True, rename=_spelling):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[NamedExtension, ...] = ()

    @property
    def exec_config(self) -> Any:
        """What this cluster wants its exec plug-ins to know."""
        return next((each.extension for each in self.extensions if each.name == _EXEC_EXTENSION), None)


class ExecEnvVar(_Private, frozen=True):
    name: str = ""
    value: str = ""


class ExecConfig(_Private, frozen=True):
    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnvVar, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(_Private, frozen=True):
    name: str = ""


class User(_Private, frozen=True, rename=_spelling):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    as_: str = ""
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: Mapping[str, tuple[str, ...]] = {}
    exec: ExecConfig | None = None
    auth_provider: AuthProvider | None = None


class Context(Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Struct, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class NamedUser(Struct, frozen=True):
    name: str
    user: User = User()


class NamedContext(Struct, frozen=True):
    name: str
    context: Context = Context()


class Kubeconfig(Struct, frozen=True, rename=_spelling):
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""


@dataclass(frozen=True)
class ClientConfig:
    """One way to talk to one API server. `origin` is where a person would change it."""

    cluster: Cluster
    user: User
    origin: str = "the configuration"
    namespace: str = ""
    """The context's; empty: it names none."""


def load(path: str) -> ClientConfig:
    """What the file's current context names. Raises KubeconfigError."""
    file = Path(path).expanduser()
    config = _read(file)
    name = config.current_context
    if not name:
        raise KubeconfigError(f"{file} has no current-context; {_there_are(config)}")
    context = _named(config.contexts, name)
    if context is None:
        raise KubeconfigError(f'{file}: context "{name}" does not exist; {_there_are(config)}')
    at, wanted = f'{file}: context "{name}"', context.context
    if not wanted.cluster:
        raise KubeconfigError(f"{at} names no cluster")
    cluster = _named(config.clusters, wanted.cluster)
    if cluster is None:
        raise KubeconfigError(f'{at} names cluster "{wanted.cluster}", which does not exist')
    if not cluster.cluster.server:
        raise KubeconfigError(f'{file}: cluster "{wanted.cluster}" has no server, such as https://10.0.0.1:6443')
    user = _named(config.users, wanted.user) if wanted.user else None
    if wanted.user and user is None:
        raise KubeconfigError(f'{at} names user "{wanted.user}", which does not exist')
    return ClientConfig(
        cluster=_cluster_with_paths(cluster.cluster, file),
        user=_user_with_paths(user.user, file) if user else User(),
        origin=str(file),
        namespace=wanted.namespace,
    )


# --- reading


def _read(path: Path) -> Kubeconfig:
    try:
        documents = read_documents(path.read_bytes())
    except FileNotFoundError:
        raise KubeconfigError(f"{path} does not exist: give the path of a kubeconfig") from None
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {error.strerror}") from None
    except DocumentError as error:
        # The reader's own words may quote the text, and this text holds passwords: the place has to do.
        place = f"{path}:{error.line}:{error.column}" if error.line else str(path)
        raise KubeconfigError(f"{place}: is not valid YAML or JSON here") from None
    if len(documents) > 1:
        raise KubeconfigError(f"{path} holds {len(documents)} documents: a kubeconfig is one")
    document = documents[0] if documents else Document({})
    _check_kind(path, document.value)
    try:
        config = codec.convert(Kubeconfig, document.value)
    except codec.DecodeError as error:
        place = ":".join(map(str, (path, *(document.place(error.field) or ()))))
        remedy = "; put it in quotes" if error.reason in ("expected str, got int", "expected str, got bool") else ""
        raise KubeconfigError(f"{place}: {error.field or 'the document'}: {error.reason}{remedy}") from None
    _check_names(path, "cluster", (each.name for each in config.clusters))
    _check_names(path, "user", (each.name for each in config.users))
    _check_names(path, "context", (each.name for each in config.contexts))
    return config


def _check_kind(path: Path, value: object) -> None:
    if not isinstance(value, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig: it holds no fields")
    if value.get("kind", "Config") != "Config" or value.get("apiVersion", "v1") != "v1":
        raise KubeconfigError(f"{path} is not a kubeconfig: one has apiVersion v1 and kind Config")


def _check_names(path: Path, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KubeconfigError(f'{path}: {kind} "{name}" occurs twice; remove one')
        seen.add(name)


# --- choosing

Entry = TypeVar("Entry", NamedCluster, NamedUser, NamedContext)


def _named(entries: Iterable[Entry], name: str) -> Entry | None:
    return next((each for each in entries if each.name == name), None)


def _there_are(config: Kubeconfig) -> str:
    names = [each.name for each in config.contexts]
    return "there is no context at all" if not names else f"there are: {', '.join(names)}"


def _cluster_with_paths(cluster: Cluster, file: Path) -> Cluster:
    return changed(cluster, certificate_authority=_absolute(cluster.certificate_authority, file))


def _user_with_paths(user: User, file: Path) -> User:
    plugin = user.exec
    if plugin is not None and "/" in plugin.command:  # a bare name is looked up in PATH
        plugin = changed(plugin, command=_absolute(plugin.command, file))
    return changed(
        user,
        client_certificate=_absolute(user.client_certificate, file),
        client_key=_absolute(user.client_key, file),
        token_file=_absolute(user.token_file, file),
        exec=plugin,
    )


def _absolute(path: str, file: Path) -> str:
    return str(file.absolute().parent / path) if path else ""
