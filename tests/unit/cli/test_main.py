import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykubelet import __version__
from pykubelet.cli.main import main

AGENT = (sys.executable, "-c", "from pykubelet.cli.main import main; main(prog_name='pykubelet')")
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def manifest(name: str, image: str = "nginx:1") -> str:
    spec = f"{{containers: [{{name: c, image: '{image}'}}]}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="pykubelet")


# --- what is asked wrongly


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--nope"], "No such option '--nope'"),
        (["dance"], "No such command 'dance'"),
        (["version", "please"], "Got unexpected extra argument (please)"),
        (
            ["run", "--root-dir", "state"],
            "there is nowhere to get pods from: give --pod-manifest-path, --manifest-url or --kubeconfig",
        ),
        (["run", "--nope"], "unknown flag: --nope"),
        (["run", "--pod-manifest-pth=m"], "unknown flag: --pod-manifest-pth; did you mean --pod-manifest-path?"),
        (["run", "--pod-manifest-path"], "flag needs an argument: --pod-manifest-path"),
        (["run", "--logging-format", "xml"], "logging.format: must be text or json, got 'xml'"),
        (["run", "--v=loud"], "--v: 'loud' is not a whole number"),
        (["run", "--config", "missing.yaml"], "missing.yaml: cannot be read: No such file or directory"),
        (["run", "--config", "bad.yaml"], "bad.yaml:1:5: is not YAML"),
        (["run", "--config", "pod.yaml"], "pod.yaml:1:1: must be of apiVersion kubelet.config.k8s.io/v1beta1"),
        (["run", "--config", "lines.yaml"], "lines.yaml:1:1: must be of apiVersion"),
        (["run", "--config", "slow.yaml"], "fileCheckFrequency: 'soon' is not a duration"),
        (["run", "--pod-manifest-path", "m", "--file-check-frequency", "20"], "fileCheckFrequency: '20' is not a dur"),
        (["run", "--pod-manifest-path", "m", "--http-check-frequency", "-1s"], "httpCheckFrequency: must not be neg"),
        (["run", "--pod-manifest-path", "m", "--hostname-override", "my_host"], "the node name 'my_host' cannot be"),
        (
            ["run", "--root-dir", "state", "--manifest-url", "ftp://example.com"],
            "the manifest URL ftp://example.com must start with http",
        ),
        (
            ["run", "--manifest-url", "http://x", "--manifest-url-header", "x"],
            "--manifest-url-header: write name:value",
        ),
        (["run", "--root-dir", "state", "--kubeconfig", "missing"], "missing does not exist"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("a: b: c")
    Path("pod.yaml").write_text(manifest("web"))
    Path("lines.yaml").write_text('kind: "a\\nb"')
    Path("slow.yaml").write_text(HEAD + "fileCheckFrequency: soon\n")
    result = invoke(*args)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith(f"pykubelet: {line}")
    assert result.stderr.count("\n") == 1


def test_a_wrong_flag_points_to_the_help_of_its_command() -> None:
    assert invoke("--nope").stderr.endswith("(see pykubelet --help)\n")
    assert invoke("run", "--nope").stderr.endswith("(see pykubelet run --help)\n")


def test_secrets_of_a_wrong_url_or_header_are_not_shown(tmp_path: Path) -> None:
    run = "run", "--root-dir", str(tmp_path), "--manifest-url"
    url = invoke(*run, "me:pa55@example.com/?t=t0ken", "--manifest-url-header", "X-Key:he4der")
    header = invoke(*run, "http://me:pa55@example.com/?t=t0ken", "--manifest-url-header", "he4der")
    for result in (url, header):
        assert result.exit_code == 2
        assert not re.search("pa55|t0ken|he4der", result.output)


def test_a_refusal_of_the_real_program_has_no_traceback(tmp_path: Path) -> None:
    command = [*AGENT, "run", "--root-dir", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


# --- what needs no agent


@pytest.mark.parametrize("args", [["version"], ["--version"]])
def test_the_version_is_told(args: list[str]) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (0, f"pykubelet {__version__}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_names_every_command_and_flag(flag: str) -> None:
    assert re.search(r"\brun\b.*\bversion\b", invoke(flag).stdout, re.DOTALL)
    help = invoke("run", flag)
    assert help.exit_code == 0
    for option in ("--config", "--kubeconfig", "--pod-manifest-path", "--manifest-url", "--manifest-url-header", "-v"):
        assert option in help.stdout


def test_without_a_command_the_help_is_shown() -> None:
    result = invoke()
    assert result.exit_code == 2
    assert result.output.startswith("Usage: pykubelet")


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["version"]])
def test_who_asks_for_help_does_not_wait_for_libraries_that_help_does_not_need(args: list[str]) -> None:
    code = f"""
import sys
from pykubelet.cli.main import main
main({args!r}, standalone_mode=False)
print(*(name for name in ("aiohttp", "grpc", "msgspec", "yaml", "ssl") if name in sys.modules), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert result.stderr == "\n"


def test_an_agent_that_reads_files_needs_no_http_client() -> None:
    code = "import sys, pykubelet.app.kubelet; sys.exit(not {'aiohttp', 'grpc', 'google'}.isdisjoint(sys.modules))"
    subprocess.run([sys.executable, "-c", code], timeout=30, check=True)


def test_an_api_server_loads_what_few_need_when_somebody_needs_it() -> None:
    """Expressions, what definitions are checked with, and what reads YAML or protobuf were a tenth of its start."""
    few = {"pykubelet.apiserver.cel", "pykubelet.apiserver.custom.definition", "yaml", "grpc", "google", "difflib"}
    code = f"import sys, pykubelet.cli.main, pykubelet.app.apiserver; print(*({few!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_help_is_whole_at_any_width(width: int) -> None:
    text = CliRunner().invoke(main, ["--help"], prog_name="pykubelet", terminal_width=width).output
    assert "..." not in text.partition("Options:")[2]
    plain = " ".join(text.split())
    for command in main.commands.values():
        if not command.hidden:
            first = " ".join((command.help or "").split("\n\n")[0].split()).removesuffix(".")
            assert first.split(". ")[0] in plain


def test_who_asks_for_help_in_words_gets_it() -> None:
    assert invoke("help").output == invoke("--help").output
    assert invoke("help", "up").output == invoke("up", "--help").output
    assert invoke("help", "image", "pull").output == invoke("image", "pull", "--help").output
    assert invoke("help").exit_code == 0


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("upp",), "'up'"),
        (("up", "--prot", "1"), "'--port'"),
        (("run", "--kubeconfg", "x"), "--kubeconfig"),
        (("down", "--dat", "x"), "'--data'"),
        (("apiserver", "--store", "sqlit"), "'sqlite', 'memory', 'etcd'"),
        (("completion", "bsh"), "'bash', 'zsh', 'fish'"),
        (("image", "pul", "x"), "'pull'"),
        (("stop",), "'down'"),
        (("start",), "'up'"),
        (("delete",), "'reset'"),
        (("get", "pods"), "kubectl"),
        (("help", "nothing"), "'nothing'"),
    ],
)
def test_what_was_probably_meant_is_named(args: tuple[str, ...], meant: str) -> None:
    said = invoke(*args)
    assert said.exit_code == 2
    assert meant in said.output
