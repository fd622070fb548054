"""The table of options: every row leads somewhere, and the reference says what the table says."""

import ast
import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from pykubelet.api import codec
from pykubelet.api.durations import parse_duration
from pykubelet.config import agent
from pykubelet.config.agent import UPSTREAMS_DEFAULTS, Config
from pykubelet.config.configz import configz
from pykubelet.config.feature_gates import SWITCHES
from pykubelet.config.option import Kind, Option
from pykubelet.config.options import HEEDED, OPTIONS
from pykubelet.config.unheeded import UNHEEDED
from pykubelet.config.validation import SOFT_EVICTION

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


def rooms(kind: type[Struct], prefix: str = "") -> dict[str, str]:
    """By the path of each setting: the room whose Settings it is in."""
    found: dict[str, str] = {}
    for field in structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, Struct):
            found |= rooms(field.type, f"{prefix}{field.name}.")
        else:
            found[f"{prefix}{field.name}"] = kind.__module__.split(".")[1]
    return found


def test_every_setting_is_heeded_by_somebody() -> None:
    """A setting that neither its own room nor the wiring reads is one that people set in vain. A name that is read
    elsewhere does not count."""
    source = Path(agent.__file__).parents[1]
    room_of = rooms(Config)
    settings = {path: room_of[path] for option in OPTIONS for path in option.settings}
    settings |= {path: room_of[path] for path in SWITCHES.values() if path}
    read = {room: reads(source / room) for room in {*settings.values(), "app", "node"} - {"config"}}
    readers = {"config": ("app",), "pod": ("pod", "node", "app")}  # what `pod` decides, `node` does

    def is_read(path: str, room: str) -> bool:
        return any(path.rpartition(".")[2] in read[each] for each in readers.get(room, (room, "app")))

    assert {path for path, room in settings.items() if not is_read(path, room)} == set()


def reads(folder: Path) -> set[str]:
    """The names of all attributes that code below a folder reads."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return found


def test_every_option_has_an_effect_or_says_why_not() -> None:
    """What goes to no setting is read by its key where the settings are made or where the agent is started."""
    source = Path(agent.__file__).parents[1]
    read = {
        node.value
        for path in (source / "config" / "agent.py", source / "config" / "pinning.py", source / "cli" / "run.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
    } | {"mergeDefaultEvictionSettings", *SOFT_EVICTION}  # which is for those who merge files, and for validation
    assert [each.key for each in HEEDED if each.vain or not (each.settings or each.key in read)] == []
    assert [each.key for each in UNHEEDED if not each.vain or each.settings or each.key in read] == []


def test_fields_and_flags_occur_once() -> None:
    for names in ([each.field for each in OPTIONS if each.field], [each.flag for each in OPTIONS if each.flag]):
        assert len(names) == len(set(names))


# --- upstream's facts

DATA = Path(__file__).parents[2] / "data"
FLAGS: dict[str, dict[str, Any]] = {
    each["name"]: each for each in json.loads((DATA / "kubelet_flags.json").read_text())
}
CONFIGURATION = json.loads((DATA / "kubelet_configuration.json").read_text())

LEGACY = {"anonymous-auth", "authentication-token-webhook", "authorization-mode", "read-only-port"}
"""Flags whose default lets anybody in, upstream, when there is no configuration file; here it never does."""

K = Kind
KINDS: dict[str, set[Kind]] = {
    "*bool": {K.TRUTH},
    "bool": {K.SWITCH},
    "*int32": {K.NUMBER},
    "int32": {K.COUNT},
    "*int64": {K.LONG},
    "int64": {K.COUNT},
    "*float64": {K.FLOAT},
    "string": {K.TEXT, K.ADDRESS, K.SIZE},
    "*string": {K.TEXT_OR_NOTHING, K.TEXT},
    "[]string": {K.LIST, K.ADDRESSES},
    "v1.Duration": {K.DURATION, K.PERIOD, K.SIGNED_DURATION},
    "*v1.Duration": {K.EXACT_DURATION},
    "v1.TimeOrMetaDuration": {K.FLUSH_PERIOD},
    "resource.QuantityValue": {K.QUANTITY},
    "map[string]string": {K.PAIRS, K.RESOURCES, K.THRESHOLDS},
    "map[string]bool": {K.GATES},
    "map[string][]string": {K.HEADERS},
    "[]v1.Taint": {K.TAINTS},
    "v1.VerbosityLevel": {K.NUMBER},
    "v1.VModuleConfiguration": {K.VMODULE},
    "[]v1beta1.ShutdownGracePeriodByPodPriority": {K.GRACE_PERIODS},
    "[]v1beta1.MemoryReservation": {K.MEMORY},
    "v1beta1.KubeletAuthorizationMode": {K.TEXT},
    "v1beta1.ImagePullCredentialsVerificationPolicy": {K.TEXT},
    "v1beta1.ResourceChangeDetectionStrategy": {K.TEXT},
}


def test_every_field_of_upstreams_has_a_row_of_its_kind() -> None:
    types = {each["path"]: each["type"] for each in CONFIGURATION["fields"]}
    rows = {option.field: option.kind for option in OPTIONS if option.field}
    assert len(types) == 136
    assert rows.keys() == types.keys()
    assert {field for field, kind in rows.items() if kind not in KINDS[types[field]]} == set()


def test_every_flag_of_upstreams_has_a_row_that_says_the_same_of_it() -> None:
    rows = {option.flag: option for option in OPTIONS if option.flag}
    assert len(FLAGS) == 148
    assert FLAGS.keys() - rows.keys() == {"help", "version"}
    assert {flag for flag in rows.keys() - FLAGS.keys() if not rows[flag].is_ours} == set()
    for flag in FLAGS.keys() & rows.keys():
        fact, option = FLAGS[flag], rows[flag]
        assert (flag, option.field) == (flag, fact["field"] or ("seccompDefault" if flag == "seccomp-default" else ""))
        assert (flag, option.is_deprecated) == (flag, fact["deprecated"])
        assert (flag, option.kind in (K.TRUTH, K.SWITCH)) == (flag, fact["alone"] == "true")
        if not option.field and option.vain:
            assert (flag, normal(option, option.default)) == (flag, normal(option, fact["default"]))


def normal(option: Option, value: Any) -> object:
    return parse_duration(value) if option.kind is K.DURATION else str(value).lower()


def test_the_defaults_are_upstreams_but_for_those_that_suit_a_machine_of_ones_own() -> None:
    values = {option.key: option.default for option in OPTIONS}
    said = json.loads(codec.encode(configz(values | dict(UPSTREAMS_DEFAULTS))))
    assert said.pop("evictionHard") == UPSTREAMS_DEFAULTS["evictionHard"]  # upstream adds it when it reads a file
    assert said == CONFIGURATION["defaults"]
    ours = json.loads(codec.encode(configz(values)))
    differing = {field for field in CONFIGURATION["defaults"] if ours.get(field) != CONFIGURATION["defaults"][field]}
    assert differing == UPSTREAMS_DEFAULTS.keys() - {"--cert-dir", "evictionHard"}


# --- the reference


def row(option: Option) -> str:
    told = f"`{option.told}`" if option.told else ""
    flag = f"`--{option.flag}`" if option.flag else ""
    if option.vain:
        return f"| {flag} | {f'`{option.field}`' if option.field else ''} | {option.vain} |"
    if not option.field:
        return f"| {flag} | {told} | {option.help} |"
    return f"| {flag} | `{option.field}` | {told} | {option.help} |"


def test_the_reference_has_the_rows_of_the_table_and_no_others() -> None:
    """What is missing can be copied from the failure."""
    found = re.findall(r"^\| (?:`--.*| \|.*`) \|.*$", REFERENCE.read_text(), re.MULTILINE)
    assert "\n".join(found) == "\n".join(row(option) for option in OPTIONS)


def test_the_reference_names_the_gates_that_change_something() -> None:
    told = REFERENCE.read_text().partition("change something:\n")[2].partition(".\n")[0]
    assert re.findall(r"`(\w+)`", told) == sorted(SWITCHES, key=str.lower)
