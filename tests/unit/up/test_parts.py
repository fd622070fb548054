import subprocess
from pathlib import Path

from pykubelet.api.struct import changed
from pykubelet.up.folder import Folder, Plan
from pykubelet.up.parts import PROGRAM, parts

PLAN = Plan(node="n1", address="10.0.0.1", api_port=6443, kubelet_port=10250, runtime="process")


def test_up_keeps_an_api_server_and_a_node(tmp_path: Path) -> None:
    server, agent = parts(Folder(tmp_path), changed(PLAN, manifests="/m"))
    assert [server.name, agent.name] == ["the API server", "the node"]
    assert " ".join(agent.command).endswith("--pod-manifest-path /m")
    assert "--port 6443 --bind-address 127.0.0.1" in " ".join(server.command)


def test_nothing_is_imported_from_the_folder_that_a_person_is_in(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('taken from here')")
    told = subprocess.run([*PROGRAM, "version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout.split()[:1], told.stderr) == (0, ["pykubelet"], "")


def test_pods_whose_limits_are_not_enforced_are_refused_where_that_is_wanted(tmp_path: Path) -> None:
    for refuses in (True, False):
        _, agent = parts(Folder(tmp_path), changed(PLAN, refuse_unenforced=refuses))
        assert ("--refuse-unenforced" in agent.command) is refuses


def test_join_keeps_a_node_alone_which_renews_what_it_was_given(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.client_ca.write_text("ca")
    (agent,) = parts(folder, changed(PLAN, kubeconfig="/k", bootstrap="/b", asks_for_certificate=True))
    told = " ".join(agent.command)
    assert f"--kubeconfig /k --client-ca-file {folder.client_ca} --bootstrap-kubeconfig /b" in told
    assert told.endswith("--rotate-certificates=true --rotate-server-certificates=true")


def test_pods_are_filtered_unless_they_are_plain_processes(tmp_path: Path) -> None:
    for runtime, is_filtered in (("process", True), ("unix:///run/containerd.sock", True), ("process://plain", False)):
        _, agent = parts(Folder(tmp_path), changed(PLAN, runtime=runtime))
        assert ("--seccomp-default" in agent.command) is is_filtered


def test_secrets_are_kept_on_disk_only_where_that_is_wanted(tmp_path: Path) -> None:
    for keeps in (True, False):
        (agent,) = parts(Folder(tmp_path), changed(PLAN, kubeconfig="/k", keep_secrets=keeps))
        assert ("--keep-secrets" in agent.command) is keeps
