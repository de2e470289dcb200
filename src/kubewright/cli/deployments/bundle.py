"""`kubewright bundle`: writes a bundle for the Operator Lifecycle Manager."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kubewright.cli.groups import Command, CommandGroup
from kubewright.cli.project_deployment import ProjectDeployment, image_option, write_file
from kubewright.cli.project_modules import relative_paths

if TYPE_CHECKING:
    from kubewright.manifests import ProjectSettings
    from kubewright.manifests.bundle import Bundle

BUNDLE_COMMANDS: Final[dict[str, Command]] = {
    "validate": Command("deployments.bundle_validate", "Check a bundle by the rules of OLM and of catalogs.")
}
"""The subcommands by name."""


@click.command("bundle", cls=CommandGroup, modules=BUNDLE_COMMANDS, invoke_without_command=True)
@image_option
@click.option("--version", help="Semantic version of the bundle.  [default: version in pyproject.toml]")
@click.option(
    "--channels", default="stable", show_default=True, metavar="A,B", help="Channels of the catalog."
)
@click.option("--default-channel", default="", help="Default channel.  [default: the first channel]")
@click.option("--package", default="", help="Package of the catalog.  [default: the name of the project]")
@click.option("--replaces", default="", metavar="VERSION", help="Version that this one replaces.")
@click.option(
    "--output",
    "-o",
    "directory",
    default="bundle",
    show_default=True,
    metavar="DIR",
    help="Directory of the bundle.",
)
@click.pass_context
def bundle_command(
    ctx: click.Context,
    /,
    image: str | None,
    directory: str,
    channels: str,
    version: str | None,
    **options: str,
) -> None:
    """Write a bundle for the Operator Lifecycle Manager, and validate it.

    The ClusterServiceVersion is generated from the types, their descriptions, the permissions and the
    webhooks of the operator; examples are the objects in config/samples. Set or change its fields in
    config/bundle/csv.yaml, and add an icon as config/bundle/icon.svg. Files of your own in bundle/manifests
    are kept.

    \b
    Example:
      kubewright bundle --version 1.2.0 --image registry.example.com/shop:1.2.0
      docker build -f bundle.Dockerfile -t registry.example.com/shop-bundle:1.2.0 .
    """
    if ctx.invoked_subcommand is not None:
        return
    from kubewright.manifests.bundle import BundleError

    from .bundle_validate import report_findings

    deployment = ProjectDeployment.load(image=image)
    try:
        bundle = _build(
            deployment,
            version=version,
            channels=[each.strip() for each in channels.split(",")],
            **options,
        )
    except BundleError as error:
        raise click.ClickException(str(error)) from None
    for warning in bundle.warnings:
        click.echo(f"Warning: {warning}", err=True)
    target = Path(directory)
    _write_base(deployment.settings)
    for action, path in _write(bundle, target):
        click.echo(f"{action} {path}", err=True)
    report_findings(target, "text")
    dockerfile = target.with_name(f"{target.name}.Dockerfile")
    image = f"REGISTRY/{deployment.settings.name}-bundle:{bundle.version}"
    click.echo(f"Next: docker build -f {dockerfile} -t {image} {target.parent}", err=True)


def _build(
    deployment: ProjectDeployment, *, version: str | None, channels: list[str], **options: str
) -> Bundle:
    """Return the bundle of the project in the current directory."""
    from kubewright.manifests.bundle import (
        BundleError,
        BundleOptions,
        ProjectMetadata,
        build_bundle,
        bundle_settings,
    )
    from kubewright.manifests.bundle.files import BASE_FILE

    settings = deployment.settings
    config = settings.directory / settings.manifests.output
    metadata = ProjectMetadata.load(settings.directory, icons=(config / BASE_FILE).parent)
    number = version or metadata.version
    if not number:
        raise BundleError(
            "the bundle has no version; set it with --version, or in [project] of pyproject.toml"
        )
    chosen = BundleOptions(version=number, channels=channels, **options)
    manifests = ProjectDeployment(bundle_settings(settings)).manifests
    assert manifests.tree is not None
    return build_bundle(
        settings,
        manifests.tree,
        chosen,
        metadata=metadata,
        samples=_samples(config / "samples", manifests.tree.initial_files),
        base=_base(config / BASE_FILE),
    )


def _samples(directory: Path, generated: dict[str, str]) -> list[dict[str, Any]]:
    """Return the sample objects of the user, or the generated ones."""
    import yaml

    files = sorted(directory.glob("*.yaml")) if directory.is_dir() else []
    texts = [path.read_text(encoding="utf-8") for path in files] or list(generated.values())
    try:
        documents = [each for text in texts for each in yaml.load_all(text, yaml.CSafeLoader)]
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise click.ClickException(f"a sample in {directory} is not YAML: {message}") from None
    return [each for each in documents if isinstance(each, dict) and each.get("kind") != "Kustomization"]


def _base(path: Path) -> dict[str, Any]:
    """Return the fields that the user sets."""
    import yaml

    if not path.exists():
        return {}
    try:
        base = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise click.ClickException(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if base is not None and not isinstance(base, dict):
        raise click.ClickException(f"{path} is not a map of the fields of a ClusterServiceVersion")
    return base or {}


def _write_base(settings: ProjectSettings) -> None:
    """Write the file for the fields of the user if it does not exist."""
    from kubewright.manifests.bundle.files import BASE, BASE_FILE

    path = settings.directory / settings.manifests.output / BASE_FILE
    if not path.exists():
        write_file(path, BASE)
        click.echo(f"wrote {relative_paths(path)}", err=True)


def _write(bundle: Bundle, directory: Path) -> list[tuple[str, Path]]:
    """Write the files that changed, delete those that are no longer generated, and return both."""
    from kubewright.manifests.bundle.files import HEADER

    done: list[tuple[str, Path]] = []
    dockerfile = directory.with_name(f"{directory.name}.Dockerfile")
    files = {directory / name: text for name, text in bundle.files.items()}
    files[dockerfile] = bundle.dockerfile.replace("DIRECTORY", directory.name)
    for path, text in files.items():
        found = path.read_text(encoding="utf-8") if path.is_file() else None
        if found is not None and not found.startswith(HEADER):
            done.append(("kept", path))
        elif found != text:
            write_file(path, text)
            done.append(("wrote", path))
    for path in sorted((directory / "manifests").glob("*.yaml")):
        if path not in files and path.read_text(encoding="utf-8").startswith(HEADER):
            path.unlink()
            done.append(("removed", path))
    return done
