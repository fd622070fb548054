"""What a shell is told that asks how a line may go on."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from pykubelet.cli.completion import completion_script
from pykubelet.cli.main import main


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    monkeypatch.setenv("_PYKUBELET_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("pykubelet", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit) as caught:
        main(prog_name="pykubelet")
    assert caught.value.code == 0
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("re",), ["plain,reload", "plain,replay", "plain,report", "plain,reset", "plain,restart"]),
        (("down", "--q"), ["plain,--quiet"]),
        (("up", "--data", "/va"), ["file,/va"]),
        (("completion", "z"), ["plain,zsh"]),
        (("run", "--pod-manifest"), ["plain,--pod-manifest-path"]),
        (("run", "--cgroup-driver", "sys"), ["plain,systemd"]),
        (("run", "--v=2", "--config", "/etc/k"), ["file,/etc/k"]),
        (("run", "--register-node", "--config-d"), ["plain,--config-dir"]),
        (("run", "--pod-infra"), []),
    ],
)
def test_commands_flags_files_and_choices_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], wanted: list[str]
) -> None:
    assert offered(monkeypatch, capsys, *words) == wanted


def test_bash_completes_a_line(tmp_path: Path) -> None:
    """As a person does it: the script is read, and the function that it names is asked."""
    program = tmp_path / "pykubelet"
    program.write_text(f"#!{sys.executable}\nfrom pykubelet.cli.run import called\ncalled()\n")
    program.chmod(0o755)
    typed = (
        "set -e; source <(pykubelet completion bash); complete -p pykubelet >/dev/null\n"
        "COMP_WORDS=(pykubelet run --container-log-max-s); COMP_CWORD=2\n"
        "_pykubelet_completion pykubelet --container-log-max-s run; echo ${COMPREPLY[*]}"
    )
    done = subprocess.run(
        ["bash", "-c", typed],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert (done.stdout, done.stderr) == ("--container-log-max-size\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_own(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    main(["completion", shell], standalone_mode=False)
    assert f"_PYKUBELET_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.skipif(which("fish") is None, reason="there is no fish here")
def test_fish_shows_whole_help_texts(tmp_path: Path) -> None:
    program = tmp_path / "pykubelet"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pykubelet "$@"\n')
    program.chmod(0o755)
    (tmp_path / "it.fish").write_text(completion_script("fish"))
    done = subprocess.run(
        ["fish", "-c", f"source {tmp_path}/it.fish; complete -C 'pykubelet image r'"],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )
    assert done.stdout == "rm\tRemove images, by name or id.\n"
