"""`replay`: what an agent decided that was started with `run --record`, decided once more by this version of it."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.common import PATH

if TYPE_CHECKING:
    from pykubelet.node.recording.replay import Difference, Line, Replay

_MOST_MEMORY: Final = 4 << 30
"""Bytes. A recording comes from somebody else."""
_WIDEST: Final = 300
_EVERYDAY: Final = frozenset(
    {"StepBegun", "StepEnded", "WorkBegun", "WorkEnded", "Relisted", "Probed", "EventsFollowed", "StatusAcknowledged"}
)
_LOOKS: Final = (
    "runtime.observe", "runtime.pods", "runtime.status", "runtime.image", "runtime.changes", "host.uids", "api.get",
    "cgroups.orphan_groups", "cgroups.balance", "logs.attempts", "asking.attempt", "objects.", "sources.", "stats.",
    "close", "can.",
)  # fmt: skip
"""What only finds something out."""


@click.command()
@click.argument("file", type=PATH)
@click.option("--pod", metavar="NS/NAME", default="", help="Show only what is decided about one pod.")
@click.option("--until", metavar="LINE|TIME", default="", help="End there: at a line of FILE, or a time (UTC).")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Lines for people, or JSON.")
def replay(file: str, pod: str, until: str, output: Literal["text", "json"]) -> None:
    """Decide once more what an agent decided that wrote FILE with `run --record`, without touching anything, and show
    it; or the first decision that differs from the recorded one (exit code 1)."""
    import logging
    import resource

    from pykubelet.host.recording_file import recorded_lines
    from pykubelet.node.recording.lines import LONGEST_LINE
    from pykubelet.node.recording.replay import Replay

    logging.disable(logging.CRITICAL)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MOST_MEMORY if most == resource.RLIM_INFINITY else min(most, _MOST_MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    is_reached = _end(until)
    show = _show_json if output == "json" else _show

    def on_line(line: "Line") -> bool:
        if is_reached(line):
            return False
        show(line, pod)
        return True

    try:
        replayed = Replay(recorded_lines(file, LONGEST_LINE), on_line)
        difference = replayed.run()
    except Invalid as error:
        raise Invalid(f"{file}: {error}" if not str(error).startswith(file) else str(error)) from None
    except MemoryError:
        raise Invalid(f"{file}: needs more than {_MOST_MEMORY >> 30} GiB of memory: this is no recording") from None
    if difference is not None:
        (_differs_json if output == "json" else _differs)(difference)
        raise click.exceptions.Exit(1)
    if output == "text":
        click.echo(_summary(replayed), err=True)


def _end(until: str) -> "Callable[[Line], bool]":
    if not until:
        return lambda line: False
    if until.isdecimal():
        number = int(until)
        return lambda line: line.number > number
    try:
        time = datetime.fromisoformat(until) if "-" in until else None
        clock = None if time else datetime.fromisoformat(f"2000-01-01T{until}").time()
    except ValueError:
        raise Invalid(
            f"--until {until}: is neither a line nor a time, such as 12:30:05 or 2026-01-02T12:30:05"
        ) from None
    if time is not None:
        return lambda line: line.now.replace(tzinfo=None) > time.replace(tzinfo=None)
    return lambda line: clock is not None and line.now.time() > clock


# --- for people


def _show(line: "Line", pod: str) -> None:
    value = line.value
    if not _is_decision(value) or (pod and value.get("pod") != pod):
        return
    click.echo(f"{line.now:%H:%M:%S.%f} {_cut(str(value.get('pod') or '-'))} {_what(value)}")


def _is_decision(value: dict[str, Any]) -> bool:
    if "note" in value:
        return value["note"].get("type") not in _EVERYDAY
    return "do" in value and "with" in value and not str(value["do"]).startswith(_LOOKS)


def _what(value: dict[str, Any]) -> str:
    if "note" in value:
        rest = {name: each for name, each in value["note"].items() if name != "type"}
        return _cut(f"{value['note'].get('type')} {_pairs(rest)}")
    if "do" in value:
        return _cut(f"{value['do']} {_pairs(value.get('with') or {})}")
    if "in" in value:
        return _cut("was told " + "; ".join(_told(each) for each in value["in"]))
    return _cut(" ".join(f"{name} {each}" for name, each in value.items()))


def _told(given: dict[str, Any]) -> str:
    import json

    if "ask" in given:
        return f"to {given['ask']}"
    rest = {name: each for name, each in given.items() if name != "to"}
    return f"to {given.get('to')}: {json.dumps(rest)}"


def _pairs(values: dict[str, Any]) -> str:
    import json

    said = _bare(values)
    return " ".join(f"{name}={each if isinstance(each, str) else json.dumps(each)}" for name, each in said.items())


def _bare(values: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing."""
    found = {name: _bare(each) if isinstance(each, dict) else each for name, each in values.items()}
    return {name: each for name, each in found.items() if each not in (None, "", [], {}, False)}


def _cut(text: str) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)  # it may be somebody else's
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]} ..."


def _differs(found: "Difference") -> None:
    import json

    where = f"line {found.at.number}, {found.at.now:%Y-%m-%d %H:%M:%S.%f}"
    click.echo(f"The first difference is at {where}{f', pod {_cut(found.pod)}' if found.pod else ''}.")
    for title, text in (("recorded", found.at.text), ("replayed", found.replayed)):
        value = json.loads(text) if text else None
        click.echo(f"  {title}: {_what(value) if isinstance(value, dict) else 'nothing more before the next step'}")
    if found.before:
        click.echo("What led to it:")
    for line in found.before:
        click.echo(f"  {line.number:>7} {line.now:%H:%M:%S.%f} {_what(line.value)}")


def _summary(replayed: "Replay") -> str:
    how = replayed.end or "it was not closed: the agent was killed, or goes on"
    if replayed.is_cut:
        how = "as told with --until"
    return f"{replayed.decisions} lines of {replayed.steps} steps came out as recorded. The recording ends here: {how}."


# --- for programs


def _show_json(line: "Line", pod: str) -> None:
    import json

    value = line.value
    if pod and value.get("pod") != pod:
        return
    click.echo(json.dumps({"line": line.number, "time": line.now.isoformat(), **value}))


def _differs_json(found: "Difference") -> None:
    import json

    said = {
        "line": found.at.number,
        "time": found.at.now.isoformat(),
        "pod": found.pod,
        "recorded": json.loads(found.at.text) if found.at.text else None,
        "replayed": json.loads(found.replayed) if found.replayed else None,
        "before": [{"line": each.number, "time": each.now.isoformat(), **each.value} for each in found.before],
    }
    click.echo(json.dumps({"difference": said}))
