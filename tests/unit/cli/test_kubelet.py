"""Under the name of the Go program that it takes the place of."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pykubelet.cli import run
from pykubelet.cli.run import kubelet
from pykubelet.pod.node.node_object import KUBELET_VERSION

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_both_names_are_installed_and_the_one_that_is_called_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    assert scripts.pop("kubectl-explainpod") == "pykubelet.cli.explain:plugin"
    assert scripts == dict.fromkeys(("kubelet", "pykubelet"), "pykubelet.cli.run:called")
    called: list[list[str]] = []

    def stand_in(arguments: list[str]) -> int:
        called.append(arguments)
        return 0

    monkeypatch.setattr(run, "kubelet", stand_in)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubelet", "--v=2"])
    with pytest.raises(SystemExit) as caught:
        run.called()
    assert (caught.value.code, called) == (0, [["--v=2"]])


def test_a_link_by_that_name_is_enough(tmp_path: Path) -> None:
    program = tmp_path / "pykubelet"
    program.write_text(f"#!{sys.executable}\nfrom pykubelet.cli.run import called\ncalled()\n")
    program.chmod(0o755)
    (tmp_path / "kubelet").symlink_to(program)
    for name, told in (("kubelet", f"Kubernetes {KUBELET_VERSION}\n"), ("pykubelet", "pykubelet ")):
        done = subprocess.run([tmp_path / name, "--version"], capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout.startswith(told)


def test_the_version_is_told_as_kubeadm_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert kubelet(["--version"]) == 0
    assert capsys.readouterr().out == f"Kubernetes {KUBELET_VERSION}\n"
    assert kubelet(["--version=raw"]) == 0
    assert capsys.readouterr().out.startswith(f'version.Info{{Major:"1", Minor:"34", GitVersion:"{KUBELET_VERSION}"')


def test_the_help_has_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert kubelet(["--port=1", "-h"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Usage: kubelet [OPTIONS]\n")
    for flag in ("-v, --v N", "--config-dir PATH", "--register-node ", "--pod-infra-container-image TEXT"):
        assert f"  {flag}" in told


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--pod-manifest-pth=/m"], "unknown flag: --pod-manifest-pth; did you mean --pod-manifest-path? (see kubelet"),
        (["run"], "unknown command run (see kubelet --help)"),
        (["--register-node", "false"], "unknown command false"),
        (["--feature-gates=MemoryQos=true"], "featureGates: unrecognized feature gate: MemoryQos; did you mean Memory"),
        (["--cloud-provider=aws"], "--cloud-provider: must be external, got 'aws'"),
        (["--version=v9"], "--version: a version to report must begin with v1.34.0, got 'v9'"),
    ],
)
def test_a_mistake_ends_it_with_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert kubelet(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"kubelet: {line}")
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_kubeadms_command_line_is_taken_and_what_has_no_effect_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "contentType: application/json\nmaxPods: 50\nfeatureGates: {MemoryQoS: true}\n"
    )
    (tmp_path / "conf.d").mkdir()
    command = [
        *(sys.executable, "-c", "import sys; from pykubelet.cli.run import kubelet; sys.exit(kubelet(sys.argv[1:]))"),
        *(f"--bootstrap-kubeconfig={tmp_path}/bootstrap.conf", f"--kubeconfig={tmp_path}/kubelet.conf"),
        *(f"--config={tmp_path}/config.yaml", "--config-dir", str(tmp_path / "conf.d")),
        *("--container-runtime-endpoint=unix:///nowhere.sock", "--node-ip=192.0.2.1"),
        *("--pod-infra-container-image=registry.k8s.io/pause:3.10", "--feature_gates=ContextualLogging=true"),
        *("--cgroup-driver", "systemd", "--node-labels=a=b", f"--root-dir={tmp_path}/state", "--v", "2"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=os.environ)
    assert done.returncode == 1
    *told, end = done.stderr.splitlines()
    assert end == f"kubelet: {tmp_path}/bootstrap.conf does not exist: give the path of a kubeconfig"
    assert not (tmp_path / "state").exists()  # nothing is made before it is known to be of use
    assert [line.split(": ", 1)[1] for line in told] == [
        "Flag --container-runtime-endpoint has been deprecated, "
        "set containerRuntimeEndpoint in the file that --config names",
        "Flag --pod-infra-container-image has been deprecated, the runtime says itself which image its sandboxes need, "
        "and that one stays",
        "Flag --feature-gates has been deprecated, set featureGates in the file that --config names",
        "Flag --cgroup-driver has been deprecated, set cgroupDriver in the file that --config names",
        "--pod-infra-container-image has no effect: the runtime says itself which image its sandboxes need, "
        "and that one stays",
        "contentType has no effect: objects travel as JSON",
        "feature gate MemoryQoS=true has no effect: here it is always off",
    ]
