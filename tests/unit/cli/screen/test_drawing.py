"""What a view looks like, in any size."""

import re
from datetime import UTC, datetime

import pytest

from kit.told_agent import node_state, pod_row
from pykubelet.cli.plain_text import width
from pykubelet.cli.screen.drawing import Line, drawn, plain_table, room
from pykubelet.cli.screen.pod_lines import node_line, pod_lines
from pykubelet.cli.screen.view import View, heard, pressed, reading, replaced

NOW = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
EVIL = "\x1b]52;c;x\x07\x1b[2J日本"
STATE = node_state(
    pod_row("web-with-a-rather-long-name-7d9f8c6b5-x2x4z", usage={}),
    pod_row("bad", isWell=False, reason="CrashLoopBackOff", restarts=12, sentence=f"bad keeps crashing: {EVIL}"),
    pod_row("日本語", namespace="prod", reason=EVIL),
    usage={"uid-bad": {"cpu": 0.25, "memory": 64 << 20}},
)
VIEW = heard(View(), [node_line(STATE)], pod_lines(STATE))


def texts(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


def look(view: View, columns: int = 100, height: int = 24) -> list[str]:
    return [line.rstrip() for line in texts(drawn(view, columns, height, NOW))]


def test_the_list() -> None:
    lines = look(VIEW)
    assert re.fullmatch(r"n1 ready   CPU 500m/2   memory 1.0Gi/4.0Gi   3 pods, 1 not well +\d\d:04:05", lines[0])
    assert lines[2].split() == ["namespace", "NAME", "ready", "status", "restarts", "cpu", "memory", "age"]
    assert lines[3].split() == ["default", "bad", "1/1", "CrashLoopBackOff", "12", "250m", "64Mi", "4m"]
    assert lines[22] == "bad keeps crashing: 日本"
    assert lines[23].startswith("enter why  l log  s shell")


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 40, 20, 5, 1])
@pytest.mark.parametrize("height", [50, 24, 6, 3, 1])
def test_every_line_is_exactly_as_wide_as_the_terminal(columns: int, height: int) -> None:
    texted = reading(pressed(VIEW, "enter", columns, height)[0], ["x" * 300, EVIL, "日" * 50])
    helped = pressed(VIEW, "?", columns, height)[0]
    typing = pressed(VIEW, "/", columns, height)[0]
    for view in (VIEW, View(), texted, helped, typing, replaced(VIEW, complaint="x" * 500)):
        lines = texts(drawn(view, columns, height, NOW))
        assert len(lines) == height
        assert (
            {width(line) for line in lines} <= {columns, columns - 1}
            if columns < 3
            else {width(line) for line in lines} == {columns}
        )
        assert all(line.isprintable() for line in lines)


def test_a_narrow_terminal_keeps_what_counts() -> None:
    assert look(VIEW, 80)[2].split() == ["namespace", "NAME", "status", "restarts", "cpu", "memory"]
    head, *rows = look(VIEW, 40)[2:6]
    assert head.split() == ["NAME", "status", "memory"]
    assert rows[1].startswith("web-with-a-ra…")
    assert rows[0].split() == ["bad", "CrashLoopBackOff", "64Mi"]
    assert look(VIEW, 80)[-1].endswith("q quit"), "all keys fit"


def test_the_selected_one_is_in_sight_in_a_long_list() -> None:
    state = node_state(*(pod_row(f"pod-{each:03}") for each in range(200)))
    view = heard(View(), [node_line(state)], pod_lines(state))
    for _ in range(150):
        view, _ = pressed(view, "down", 80, room(view, 24))
    (chosen,) = [line for line in drawn(view, 80, 24, NOW) if line[0].style == "chosen"]
    assert "pod-150" in chosen[0].text


def test_who_is_not_well_is_marked_and_what_is_old_is_dim() -> None:
    view, _ = pressed(VIEW, "G", 80, 20)
    styles = [line[0].style for line in drawn(view, 80, 24, NOW)]
    assert styles[3] == "bad"
    old = drawn(replaced(view, complaint="no agent answers; trying again"), 80, 24, NOW)
    assert (old[1][0].style, old[3][0].style) == ("bad", "dim")
    assert "trying again" in old[1][0].text


def test_several_nodes_have_a_column() -> None:
    other = node_state(pod_row("there"), name="n2")
    lines = [*pod_lines(STATE), *pod_lines(other)]
    assert look(heard(View(), [node_line(STATE), node_line(other)], lines), 140)[2].split()[2] == "node"
    assert look(heard(View(), [node_line(STATE), node_line(other)], lines), 140)[0].startswith("2 nodes   4 pods")


def test_nothing_is_said_in_words() -> None:
    assert look(View())[3] == "Looking ..."
    assert look(heard(View(), [], []))[3] == "No pods here."
    assert look(replaced(VIEW, words="nope"))[3] == "No pod fits: escape shows all."


def test_a_table_for_a_file_is_as_wide_as_it_takes() -> None:
    table = plain_table(pod_lines(STATE), NOW, has_node=False).splitlines()
    assert table[0].split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "AGE"]
    assert "web-with-a-rather-long-name-7d9f8c6b5-x2x4z" in table[1]
    assert all(line.isprintable() for line in table)
    assert plain_table((), NOW, has_node=False) == "No pods here."
