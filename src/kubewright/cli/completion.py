"""`kubewright completion`: prints a script that completes commands and options in a shell."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      kubewright completion bash > ~/.local/share/bash-completion/completions/kubewright
      kubewright completion zsh > "${fpath[1]}/_kubewright"
      kubewright completion fish > ~/.config/fish/completions/kubewright.fish
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"completion for {shell} is not available in this version of click")
    script = found(root.command, {}, "kubewright", "_KUBEWRIGHT_COMPLETE")
    # BashComplete.source() runs bash to check its version; the script itself is the same for all versions.
    click.echo(script.source_template % script.source_vars())
