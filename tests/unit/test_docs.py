"""What the documents point at is there: links, and the files of the house that they name. And what is there, they name:
pages, commands, rooms and decisions."""

import re
from pathlib import Path

import click
import pytest

from pykubelet.cli.main import main

TOP = Path(__file__).parents[2]
SOURCES = TOP / "src" / "pykubelet"
DOCUMENTS = [path for path in (*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")) if path.name != "CHANGELOG.md"]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_what_a_document_points_at_is_there(document: Path) -> None:
    text = document.read_text()
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    within = (SOURCES, SOURCES / "apiserver", TOP, TOP / "tests")
    missing += [name for name in NAMED.findall(text) if not any((folder / name).exists() for folder in within)]
    assert not missing


def test_every_page_for_users_is_found_from_the_first_one() -> None:
    text = (TOP / "README.md").read_text()
    pages = [path.relative_to(TOP) for folder in ("how-to", "reference") for path in TOP.glob(f"docs/{folder}/*.md")]
    assert [str(page) for page in pages if f"({page})" not in text] == []


def test_every_command_is_in_the_reference() -> None:
    text = (TOP / "docs/reference/commands.md").read_text().partition("## Exit codes")[0]
    groups = {name: each for name, each in main.commands.items() if isinstance(each, click.Group)}
    names = {name for name, each in main.commands.items() if not each.hidden and name not in groups}
    names |= {name for each in groups.values() for name in each.commands}
    assert {name for name in names if not re.search(rf"`(\w+ )?{name}`", text)} == set()
    assert [name for name in groups if f"`{name} " not in text] == []


def test_every_room_is_in_the_architecture() -> None:
    text = (TOP / "ARCHITECTURE.md").read_text()
    rooms = [path.parent.name for path in SOURCES.glob("*/__init__.py")]
    assert [room for room in rooms if f"| `{room}/` |" not in text] == []
    wing = next(line for line in text.splitlines() if "| `apiserver/` |" in line)
    inner = [path.parent.name for path in (SOURCES / "apiserver").glob("*/__init__.py")]
    assert [room for room in inner if f"`{room}/`" not in wing] == []


def test_decisions_are_numbered() -> None:
    records = sorted((TOP / "docs/adr").glob("*.md"))
    numbers = [int(each.name[:4]) for each in records]
    assert numbers == sorted(set(numbers))
    assert [each.name for each in records if not each.read_text().startswith(f"# {int(each.name[:4])}. ")] == []
