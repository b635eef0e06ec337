"""`ottla completion`: the script that teaches a shell to complete ottla's commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ottla.cli.errors import Failure

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  ottla completion bash > ~/.local/share/bash-completion/completions/ottla
    zsh:   ottla completion zsh > "${fpath[1]}/_ottla"
    fish:  ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise Failure(f"no completion is known for {shell}")
    completion = completion_class(click.Command("ottla"), {}, "ottla", "_OTTLA_COMPLETE")
    click.echo(completion.source())
