"""What `man pykubelet` shows is what the programs say themselves."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pykubelet.cli.main import main
from pykubelet.config.flags import described

TOOL = Path(__file__).parents[3] / "tools" / "man_pages.py"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("man_pages", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.pages()
    return found


def test_every_command_and_every_flag_is_there(pages: dict[str, str]) -> None:
    text = pages["pykubelet.1"].replace("\\", "")
    for name, command in main.commands.items():
        if command.hidden:
            assert f"pykubelet {name}" not in text
            continue
        assert f'.SS "pykubelet {name}' in text
        options = [option for each in command.params if isinstance(each, click.Option) for option in each.opts]
        assert not [option for option in options if name != "run" and option not in text]
    flags = [flag for flag, _ in described()]
    assert flags
    assert not [flag for flag in flags if flag not in pages["kubelet.8"].replace("\\", "")]


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_they_are_without_a_fault(pages: dict[str, str]) -> None:
    for text in pages.values():
        groff = ["groff", "-man", "-Tutf8", "-ww", "-z"]
        done = subprocess.run(groff, input=text, capture_output=True, text=True, timeout=30, check=True)
        assert done.stderr == ""


def test_making_them_needs_click_and_nothing_else() -> None:
    """They are made where a wheel is built, which is not where it runs."""
    script = f"import sys; before = set(sys.modules); import runpy; runpy.run_path({str(TOOL)!r}, run_name='it')\n"
    script += "print(*sorted({each.partition('.')[0] for each in set(sys.modules) - before}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    foreign = {each for each in done.stdout.split() if each not in sys.stdlib_module_names and each[:1] != "_"}
    assert foreign == {"click", "pykubelet"}
