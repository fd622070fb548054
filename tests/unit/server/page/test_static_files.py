"""The page's own files: nothing in them makes markup of what somebody else wrote, nor fetches from anywhere else."""

import re
from pathlib import Path

import pytest

from pykubelet.server import page

FOLDER = Path(page.__file__).parent / "static"
SCRIPTS = sorted(FOLDER.glob("*.js"))
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\b"
    r"|new Function|setTimeout\(\s*[\"'`]|javascript:|\.cssText|setAttribute\([\"']style"
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_stays_text(path: Path) -> None:
    assert MARKUP.findall(path.read_text()) == []


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", path.read_text())
    assert [each for each in found if not each.startswith("http://www.w3.org/2000/svg")] == []


def test_the_page_has_neither_scripts_nor_styles_in_itself() -> None:
    text = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\bstyle=|\bon[a-z]+=", text) == []


def test_what_the_first_view_needs_is_asked_for_at_once_and_exists() -> None:
    text = (FOLDER / "index.html").read_text()
    named = set(re.findall(r'(?:href|src)="files/([^"]+)"', text))
    assert named <= {path.name for path in FOLDER.iterdir()}
    needed, seen = ["main.js"], set()
    while needed:
        name = needed.pop()
        if name not in seen:
            seen.add(name)
            needed += re.findall(r'^import .* from "\./([^"]+)";', (FOLDER / name).read_text(), re.MULTILINE)
    assert seen <= named, "each file that is found late takes one more turn"


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 120_000
