from pathlib import Path

import pytest

from pykubelet.kube import kubeconfig
from pykubelet.kube.errors import KubeconfigError
from pykubelet.kube.kubeconfig import User

TEXT = """
apiVersion: v1
kind: Config
current-context: main
clusters:
- name: c
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority: pki/ca.crt
users:
- name: u
  user:
    client-certificate: ../client.crt
    client-key: /abs/client.key
    tokenFile: token
    as: alice
    as-uid: "7"
    as-groups: [a, b]
    as-user-extra: {scopes: [view]}
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/login
      args: [get]
      env: [{name: A, value: b}]
      provideClusterInfo: true
      interactiveMode: Never
      installHint: install it
contexts:
- name: main
  context: {cluster: c, user: u, namespace: team}
- name: bare
  context: {cluster: c}
"""


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_the_current_context_chooses_cluster_and_user(tmp_path: Path) -> None:
    config = kubeconfig.load(write(tmp_path / "config", TEXT))
    assert config.cluster.server == "https://10.0.0.1:6443"
    assert config.origin == str(tmp_path / "config")
    assert (config.user.as_, config.user.as_uid, config.user.as_groups) == ("alice", "7", ("a", "b"))
    assert config.user.as_user_extra == {"scopes": ("view",)}
    assert config.user.exec is not None
    assert config.user.exec.provide_cluster_info
    assert config.user.exec.interactive_mode == "Never"


def test_a_context_may_have_no_user(tmp_path: Path) -> None:
    text = TEXT.replace("current-context: main", "current-context: bare")
    assert kubeconfig.load(write(tmp_path / "config", text)).user == User()


def test_relative_paths_start_at_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "conf" / "config", TEXT)
    monkeypatch.chdir(tmp_path)
    config = kubeconfig.load("conf/config")
    assert config.cluster.certificate_authority == str(tmp_path / "conf" / "pki" / "ca.crt")
    assert config.user.client_certificate == str(tmp_path / "conf" / ".." / "client.crt")
    assert config.user.client_key == "/abs/client.key"
    assert config.user.token_file == str(tmp_path / "conf" / "token")
    assert config.user.exec is not None
    assert config.user.exec.command == str(tmp_path / "conf" / "bin" / "login")


def test_a_bare_command_is_left_for_the_search_path(tmp_path: Path) -> None:
    config = kubeconfig.load(write(tmp_path / "config", TEXT.replace("bin/login", "login")))
    assert config.user.exec is not None
    assert config.user.exec.command == "login"


def test_json_is_a_kubeconfig_too(tmp_path: Path) -> None:
    text = (
        '{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}], '
        '"clusters": [{"name": "c", "cluster": {"server": "https://h", "insecure-skip-tls-verify": true}}], '
        '"users": null}'
    )
    assert kubeconfig.load(write(tmp_path / "config", text)).cluster.insecure_skip_tls_verify


def test_what_the_cluster_tells_its_plugins_is_found(tmp_path: Path) -> None:
    text = TEXT.replace(
        "    certificate-authority: pki/ca.crt",
        "    extensions:\n    - {name: client.authentication.k8s.io/exec, extension: {audience: me}}",
    )
    assert kubeconfig.load(write(tmp_path / "config", text)).cluster.exec_config == {"audience": "me"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("user: u,", "user: them,"), 'FILE: context "main" names user "them", which does not exist'),
        (("cluster: c, user", "cluster: z, user"), 'FILE: context "main" names cluster "z", which does not exist'),
        (("cluster: c, user", "user"), 'FILE: context "main" names no cluster'),
        (("current-context: main", "current-context: x"), 'FILE: context "x" does not exist; there are: main, bare'),
        (("current-context: main", ""), "FILE has no current-context; there are: main, bare"),
        (("server: https://10.0.0.1:6443", "server: ''"), 'cluster "c" has no server, such as https://10.0.0.1:6443'),
        (("name: bare", "name: main"), 'FILE: context "main" occurs twice; remove one'),
        (("kind: Config", "kind: Pod"), "FILE is not a kubeconfig: one has apiVersion v1 and kind Config"),
        (("as: alice", "as: 5"), "FILE:16:9: users[0].user.as: expected str, got int; put it in quotes"),
        (("as: alice", "as: &"), "is not valid YAML or JSON here"),
        (("kind: Config", "---\nkind: Config"), "FILE holds 2 documents: a kubeconfig is one"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = write(tmp_path / "config", TEXT.replace(*change))
    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.load(path)
    assert complaint.replace("FILE", path) in str(caught.value)


def test_a_file_that_was_asked_for_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="none does not exist: give the path of a kubeconfig"):
        kubeconfig.load(str(tmp_path / "none"))


def test_an_empty_file_has_no_context(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no context at all"):
        kubeconfig.load(write(tmp_path / "config", ""))


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory"):
        kubeconfig.load(str(tmp_path))


@pytest.mark.parametrize("password", ["!s3cret", "*s3cret", "&s3cret *s3cret", "'s3cret", "!!int s3cret", "{s3cret"])
def test_text_that_cannot_be_read_is_not_quoted(tmp_path: Path, password: str) -> None:
    path = write(tmp_path / "config", TEXT.replace("as: alice", f"password: {password}"))
    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.load(path)
    assert "s3cret" not in str(caught.value)


def test_a_repr_names_fields_and_hides_what_is_in_them(tmp_path: Path) -> None:
    text = TEXT.replace("as: alice", "token: s3cret\n    password: s3cret\n    client-key-data: s3cret")
    text = text.replace("value: b", "value: s3cret").replace("server:", "proxy-url: http://u:s3cret@p\n    server:")
    config = kubeconfig.load(write(tmp_path / "config", text))
    assert config.user.token == "s3cret"
    assert "s3cret" not in f"{config!r} {config} {config.user} {config.user.exec}"
    assert "token" in repr(config.user)
