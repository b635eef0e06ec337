"""`ottla completion`: the script that teaches a shell to complete ottla's commands, and the names
of topics, groups and settings (name_completion.py)."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ottla.cli.errors import Failure

_SHELLS = ("bash", "zsh", "fish")

# click's scripts end every word with a space. After KEY= comes the value; fish knows by itself.
_BASH_WITHOUT_SPACE = """
_ottla_completion_and_value() {
    _ottla_completion "$@"
    [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace
    return 0
}

complete -o nosort -F _ottla_completion_and_value ottla
"""
_ZSH_COMPADD = "compadd -U -V unsorted -a completions"
_ZSH_COMPADD_WITHOUT_SPACE = """\
local -a suffix
        [[ $completions[1] == *= ]] && suffix=(-S '')
        compadd -U -V unsorted "${suffix[@]}" -a completions"""


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  ottla completion bash > ~/.local/share/bash-completion/completions/ottla
    zsh:   ottla completion zsh > "${fpath[1]}/_ottla"
    fish:  ottla completion fish > ~/.config/fish/completions/ottla.fish

    Or for this shell only:  source <(ottla completion bash)

    Names of topics, groups, brokers and settings come from the broker that the command line or
    OTTLA_BOOTSTRAP names, if it answers within 0.3 s.
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise Failure(f"no completion is known for {shell}")
    completion = completion_class(click.Command("ottla"), {}, "ottla", "_OTTLA_COMPLETE")
    source = completion.source()
    if shell == "bash":
        source += _BASH_WITHOUT_SPACE
    elif shell == "zsh":
        source = source.replace(_ZSH_COMPADD, _ZSH_COMPADD_WITHOUT_SPACE)
    click.echo(source)
