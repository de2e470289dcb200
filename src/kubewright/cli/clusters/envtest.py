"""`kubewright envtest`: writes executables that Go's envtest starts."""

from __future__ import annotations

from pathlib import Path

import click


def _version(context: click.Context, parameter: click.Parameter, text: str) -> str:
    from kubewright.api.kubernetes_version import KubernetesVersion

    try:
        return str(KubernetesVersion.parse(text)) if text else ""
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("envtest")
@click.option(
    "--bin-dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the executables; it is created.",
)
@click.option(
    "--kubectl",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="kubectl to link to.  [default: that on the PATH]",
)
@click.option("--force", is_flag=True, help="Replace executables of other programs.")
@click.option(
    "-p",
    "--print",
    "output",
    type=click.Choice(["overview", "path", "env"]),
    default="overview",
    show_default=True,
    help="What to print: `path` is the directory alone, `env` a shell command that sets KUBEBUILDER_ASSETS.",
)
@click.option(
    "--kubernetes-version",
    default="",
    callback=_version,
    metavar="VERSION",
    help="Version of Kubernetes that kube-apiserver serves, as `use VERSION`.  [default: the newest]",
)
@click.argument("words", nargs=-1, metavar="[use [VERSION]]")
def envtest_command(
    bin_dir: Path,
    kubectl: Path | None,
    force: bool,
    output: str,
    kubernetes_version: str,
    words: tuple[str, ...],
) -> None:
    """Write the executables kube-apiserver, etcd and kubectl for the tests of Go operators.

    With KUBEBUILDER_ASSETS set to the directory, `go test` of an operator that uses envtest runs on
    Kubewright. The arguments `use VERSION` of setup-envtest are accepted, so that a Makefile of Kubebuilder
    works with ENVTEST="kubewright envtest".

    \b
    Example:
      KUBEBUILDER_ASSETS=$(kubewright envtest --bin-dir bin/k8s -p path) go test ./...
    """
    from kubewright.envtest.executables import ForeignFile, write_executables

    version = kubernetes_version or _version_of(words)
    try:
        found = write_executables(bin_dir, kubectl=kubectl, overwrite=force, kubernetes_version=version)
    except ForeignFile as error:
        raise click.ClickException(f"{error}; use another --bin-dir, or --force to replace it") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or bin_dir}: {error.strerror}") from None
    if output == "path":
        click.echo(str(found.directory), nl=False)
        return
    if output == "env":
        click.echo(f"export KUBEBUILDER_ASSETS='{found.directory}'")
        return
    for path in found.written:
        click.echo(f"wrote {path}")
    if found.kubectl is None:
        click.echo("kubectl was not found; only tests that call it need it", err=True)
    click.echo(f"Run tests with: KUBEBUILDER_ASSETS={found.directory} go test ./...")


def _version_of(words: tuple[str, ...]) -> str:
    """Return the version of Kubernetes that the arguments name; empty for the newest."""
    if not words:
        return ""
    if words[0] != "use" or len(words) > 2:
        raise click.UsageError(f"unexpected arguments {' '.join(words)!r}; expected `use [VERSION]` or none")
    if len(words) == 1:
        return ""
    from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion, supported

    wanted = words[1].rstrip("!")
    if not wanted.lstrip("v")[:1].isdecimal() or "x" in wanted.split(".")[1:2]:
        return str(NEWEST)  # such as `latest` or `1.x`
    parts = wanted.lstrip("v").split(".")
    try:
        return str(KubernetesVersion.parse(".".join(parts[:2])))
    except ValueError:
        click.echo(
            f"Warning: version {words[1]} is not available; the API server serves {NEWEST} "
            f"(available are {', '.join(map(str, supported()))})",
            err=True,
        )
    return str(NEWEST)
