"""What the documents point at is there: links, and the files of the house that they name."""

import re
from pathlib import Path

import pytest

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
