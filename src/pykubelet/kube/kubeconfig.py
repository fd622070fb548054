"""Which API server to talk to, and as whom: kubeconfig files, merged as kubectl does, or the service account of a pod.

What comes out is settled: one cluster, one user, absolute paths. What is wrong with a file is said here, with a remedy.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pykubelet.api import codec
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.struct import Struct, changed
from pykubelet.kube.errors import KubeconfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
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
    namespace: str = "default"
    origin: str = "the configuration"


def load(path: str = "", *, context: str = "", environ: Mapping[str, str] = os.environ) -> ClientConfig:
    """The given file, which has to exist; else the files of KUBECONFIG, missing ones skipped; else ~/.kube/config."""
    if path:
        files = [_read(Path(path).expanduser())]
    else:
        names = environ.get("KUBECONFIG") or str(Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config")
        paths = [Path(name) for name in dict.fromkeys(names.split(os.pathsep)) if name]
        files = [_read(each) for each in paths if each.exists()]
        if not files:
            raise KubeconfigError(f"no kubeconfig at {names}: give the path of one, or set KUBECONFIG")
    return _chosen(files, context)


def in_cluster(*, root: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> ClientConfig:
    """The service account that Kubernetes gives to the containers of a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError(
            "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a kubeconfig instead"
        )
    for name in ("token", "ca.crt"):
        if not (root / name).is_file():
            raise KubeconfigError(
                f"{root / name} does not exist: does the pod say automountServiceAccountToken: false?"
            )
    try:
        namespace = (root / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return ClientConfig(
        cluster=Cluster(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}", certificate_authority=str(root / "ca.crt")
        ),
        user=User(token_file=str(root / "token")),
        namespace=namespace or "default",
        origin=str(root),
    )


# --- reading


@dataclass(frozen=True)
class _File:
    path: Path
    config: Kubeconfig


def _read(path: Path) -> _File:
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
    return _File(path, config)


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


def _chosen(files: list[_File], context_name: str) -> ClientConfig:
    context_name, names_it = _context_name(files, context_name)
    found = _first(files, context_name, lambda config: config.contexts)
    if found is None:
        raise KubeconfigError(f'{names_it}: context "{context_name}" does not exist; {_there_are(files)}')
    where, context = found[0].path, found[1].context
    if not context.cluster:
        raise KubeconfigError(f'{where}: context "{context_name}" names no cluster')
    cluster = _first(files, context.cluster, lambda config: config.clusters)
    if cluster is None:
        raise _dangling(where, context_name, "cluster", context.cluster)
    if not cluster[1].cluster.server:
        raise KubeconfigError(
            f'{cluster[0].path}: cluster "{context.cluster}" has no server, such as https://10.0.0.1:6443'
        )
    user = _first(files, context.user, lambda config: config.users) if context.user else None
    if context.user and user is None:
        raise _dangling(where, context_name, "user", context.user)
    return ClientConfig(
        cluster=_cluster_with_paths(cluster[1].cluster, cluster[0].path),
        user=_user_with_paths(user[1].user, user[0].path) if user else User(),
        namespace=context.namespace or "default",
        origin=str(user[0].path if user else where),
    )


def _context_name(files: list[_File], wanted: str) -> tuple[str, Path]:
    if wanted:
        return wanted, files[0].path
    for file in files:
        if file.config.current_context:
            return file.config.current_context, file.path
    raise KubeconfigError(f"{files[0].path} has no current-context; {_there_are(files)}")


def _there_are(files: list[_File]) -> str:
    names = dict.fromkeys(each.name for file in files for each in file.config.contexts)
    return "there is no context at all" if not names else f"there are: {', '.join(names)}"


def _first(
    files: list[_File], name: str, entries: Callable[[Kubeconfig], tuple[Entry, ...]]
) -> tuple[_File, Entry] | None:
    """The first file that has an entry of this name has all of it: two entries are never mixed."""
    return next(((file, each) for file in files for each in entries(file.config) if each.name == name), None)


def _dangling(path: Path, context: str, kind: str, name: str) -> KubeconfigError:
    return KubeconfigError(f'{path}: context "{context}" names {kind} "{name}", which does not exist')


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
