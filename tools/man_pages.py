"""Man pages, made from the help that the programs print whenever a wheel is built. `python tools/man_pages.py FOLDER`
writes them down."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pykubelet.cli.main import EXIT_CODES, main
from pykubelet.cli.run import run
from pykubelet.config.flags import described


def pages() -> dict[str, str]:
    """By file name."""
    context = click.Context(main, info_name="pykubelet")
    commands = [main.commands[name] for name in main.list_commands(context) if not main.commands[name].hidden]
    return {
        "pykubelet.1": "\n".join([*_head("pykubelet", "1", "a kubelet in Python"), *_overview(commands), *_end()])
        + "\n",
        "kubelet.8": "\n".join([*_head("kubelet", "8", "the node agent of a cluster"), *_agent(), *_end()]) + "\n",
    }


def _head(name: str, section: str, what: str) -> list[str]:
    return [f'.TH {name.upper()} {section} "" pykubelet', ".SH NAME", f"{_plain(name)} \\- {_plain(what)}"]


def _overview(commands: list[click.Command]) -> Iterator[str]:
    yield from (".SH SYNOPSIS", ".B pykubelet", "COMMAND [OPTIONS] ...", ".SH COMMANDS")
    for command in commands:
        yield from _command(command)
    yield from (".SH EXIT STATUS", _plain(EXIT_CODES))


def _command(command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _command(_named(each, f"{command.name} {each.name}"))
        return
    context = click.Context(command, info_name=command.name)
    usage = ["pykubelet", str(command.name), *command.collect_usage_pieces(context)]
    yield f".SS {_quoted(' '.join(usage))}"
    yield from _paragraphs(command.help or "")
    if command is run:
        yield "Its options are those of \\fBkubelet\\fR(8)."
        return
    options = (each.get_help_record(context) for each in command.params if isinstance(each, click.Option))
    yield from _options(record for record in options if record)


def _named(command: click.Command, name: str) -> click.Command:
    """As it is called; a copy, since the program itself is not to be changed."""
    made = click.Command(name, help=command.help, params=command.params, add_help_option=command.add_help_option)
    made.hidden = command.hidden
    return made


def _agent() -> Iterator[str]:
    yield from (".SH SYNOPSIS", ".B kubelet", "[OPTIONS]", ".PP", ".B pykubelet run", "[OPTIONS]", ".SH DESCRIPTION")
    yield from _paragraphs(run.help or "")
    yield ".SH OPTIONS"
    yield from _options(described())


def _options(records: Iterable[tuple[str, str]]) -> Iterator[str]:
    for flags, text in records:
        yield from (".TP", f"\\fB{_plain(flags)}\\fR", _plain(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        is_kept = paragraph.lstrip().startswith("\b")
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        yield from ([".nf", *map(_plain, lines), ".fi"] if is_kept else [_plain(" ".join(lines))])
        yield ".PP"


def _end() -> list[str]:
    return [".SH SEE ALSO", "\\fBpykubelet\\fR(1), \\fBkubelet\\fR(8), \\fBkubectl\\fR(1)"]


def _quoted(text: str) -> str:
    return '"' + _plain(text).replace('"', "\\(dq") + '"'


def _plain(text: str) -> str:
    """What roff takes as it is: a line must not begin with what looks like a request."""
    found = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{found}" if found.startswith(".") else found


if __name__ == "__main__":
    for name, text in pages().items():
        Path(sys.argv[1], name).write_text(text)
