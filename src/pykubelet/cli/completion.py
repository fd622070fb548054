"""`completion`: what makes a shell complete our commands and flags; the shell asks the program itself each time."""

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands and flags.

    \b
    bash: source <(pykubelet completion bash)
    zsh:  source <(pykubelet completion zsh)
    fish: pykubelet completion fish | source"""
    click.echo(completion_script(shell))


def completion_script(shell: str) -> str:
    """Made without asking whether that shell is here, and of which version: it may be for another machine."""
    made = get_completion_class(shell)
    assert made is not None, shell
    from pykubelet.cli.main import main

    ours = made(main, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    script = ours.source_template % ours.source_vars()
    return script.replace('string split ","', 'string split --max 1 ","')  # fish: help texts have commas, too
