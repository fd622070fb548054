"""The command line: the group of all commands, and errors told in one line. Each command's module loads what takes long
only when it is run."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from pykubelet import __version__
from pykubelet.base.errors import Invalid, Retry
from pykubelet.cli import (
    apiserver,
    completion,
    explain,
    image,
    join,
    page,
    pods,
    reload,
    replay,
    report,
    restart,
    run,
    top,
    up,
)

_REMEDIES: Final = {
    errno.EACCES: "run this as the user whom it belongs to, or choose another folder with --data",
    errno.EPERM: "run this as the user whom it belongs to, or choose another folder with --data",
    errno.EROFS: "choose a folder that can be written to with --data",
    errno.ENOSPC: "make room there, or choose another folder with --data",
    errno.EDQUOT: "make room there, or choose another folder with --data",
    errno.ENOENT: "choose a folder that can be made with --data",
    errno.ENOTDIR: "choose another folder with --data",
    errno.EEXIST: "choose another folder with --data",
}
"""What the folder that everything is in can suffer from."""


EXIT_CODES: Final = (
    "Exit codes: 0 it is done; 1 it cannot be done now, and may work later; 2 it is refused, and would be again. "
    "Called as `kubelet`: 1 for both, as Go's."
)


_MEANT: Final = {
    **dict.fromkeys(("start", "create", "init", "serve"), "up"),
    **dict.fromkeys(("stop", "halt", "shutdown"), "down"),
    **dict.fromkeys(("delete", "destroy", "remove", "uninstall", "clean"), "reset"),
    **dict.fromkeys(("status", "ps", "list"), "pods"),
    **dict.fromkeys(("images", "pull", "load"), "image"),
}
"""Commands of other programs, by what they are called here."""
_OF_KUBECTL: Final = frozenset(
    ("apply", "attach", "cp", "describe", "edit", "exec", "expose", "get", "logs", "port-forward", "rollout", "scale")
)


class _Refusal(click.ClickException):
    """What was asked cannot be done: one line says why."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        message = self.message.replace("\n", "\\n")  # it may quote what somebody else wrote
        click.echo(f"pykubelet: {message}", file=file, err=file is None)


class _NotNow(_Refusal):
    """It may be done later."""

    exit_code = 1


class _Commands(click.Group):
    """Click tells of a wrong flag in four lines; here it is one, like any other wrong input."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click cuts what does not fit into a line; here it goes on in the next."""
        shown = [(name, self.commands[name]) for name in self.list_commands(ctx) if not self.commands[name].hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=1000)) for name, command in shown])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Where the meaning is plain though the spelling is not near, it is told by that."""
        name = args[0]
        if ctx.parent is None and name not in self.commands:
            if name in _OF_KUBECTL:
                raise click.UsageError(f"'{name}' is a command of kubectl; `pykubelet up` says how to use it.", ctx)
            if name in _MEANT:
                raise click.UsageError(f"No such command '{name}'. Did you mean '{_MEANT[name]}'?", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _in_one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_line():
            return super().invoke(ctx)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pykubelet"
        raise _Refusal(f"{error.format_message()} (see {command} --help)") from None
    except Invalid as error:
        raise _Refusal(str(error)) from None
    except Retry as error:
        raise _NotNow(str(error)) from None
    except OSError as error:
        if error.filename is None or error.errno not in _REMEDIES:
            raise
        raise _Refusal(f"{error.filename}: {error.strerror}; {_REMEDIES[error.errno]}") from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="pykubelet", message="%(prog)s %(version)s")
def main() -> None:
    """A kubelet in Python."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"pykubelet {__version__}")


@main.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show what there is, or how a command is used."""
    command: click.Command = main
    shown = ctx.parent or ctx
    for name in words:
        found = command.get_command(shown, name) if isinstance(command, click.Group) else None
        if found is None:
            raise click.UsageError(f"No such command '{' '.join(words)}'.", ctx.parent)
        command, shown = found, click.Context(found, info_name=name, parent=shown)
    click.echo(command.get_help(shown))


for command in (
    run.run,
    apiserver.apiserver,
    up.up,
    up.down,
    up.reset,
    up.supervise,
    join.join,
    join.token,
    pods.pods,
    top.top,
    reload.reload,
    restart.restart,
    explain.explain,
    page.page,
    report.report,
    replay.replay,
    image.image,
    completion.completion,
):
    main.add_command(command)
