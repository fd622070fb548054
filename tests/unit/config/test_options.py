"""The table of options: every row leads somewhere, and the reference says what the table says."""

import ast
import re
from pathlib import Path

from msgspec import Struct, structs

from pykubelet.config import agent
from pykubelet.config.agent import Config
from pykubelet.config.options import OPTIONS, UNUSED, Option

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def paths(kind: type[Struct], prefix: str = "") -> set[str]:
    """Of all settings."""
    found = set()
    for field in structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, Struct):
            found |= paths(field.type, f"{prefix}{field.name}.")
        else:
            found.add(f"{prefix}{field.name}")
    return found


def test_every_option_goes_to_a_setting_and_no_setting_has_two() -> None:
    told = [path for option in OPTIONS for path in option.settings]
    assert set(told) <= paths(Config)
    assert len(told) == len(set(told))


def test_every_setting_is_heeded_by_somebody() -> None:
    """A setting that no code reads is one that people set in vain."""
    source = Path(agent.__file__).parents[1]
    files = (path for path in source.rglob("*.py") if path.parent.name not in ("config", "_gen"))
    read = {
        node.attr
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert {path for option in OPTIONS for path in option.settings if path.rpartition(".")[2] not in read} == set()


def test_fields_and_flags_occur_once() -> None:
    for names in ([each.field for each in OPTIONS if each.field], [each.flag for each in OPTIONS if each.flag]):
        assert len(names) == len(set(names))
    assert not UNUSED.intersection(option.field for option in OPTIONS)


def row(option: Option) -> str:
    told = f"`{option.told}`" if option.told else ""
    flag = f"`--{option.flag}`" if option.flag else ""
    if not option.field:
        return f"| {flag} | {told} | {option.help} |"
    return f"| {flag} | `{option.field}` | {told} | {option.help} |"


def test_the_reference_has_the_rows_of_the_table_and_no_others() -> None:
    """What is missing can be copied from the failure."""
    found = re.findall(r"^\| (?:`--.*| \|.*`) \|.*$", REFERENCE.read_text(), re.MULTILINE)
    only_of_run = ("`--config`", "`--logging-format`", "`-v`, `--v`")
    told = [line for line in found if not line.startswith(tuple(f"| {name} " for name in only_of_run))]
    assert "\n".join(told) == "\n".join(row(option) for option in OPTIONS)
