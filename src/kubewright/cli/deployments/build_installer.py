"""`kubewright build-installer`: writes one file with everything to deploy an operator."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright.cli.project_deployment import ProjectDeployment, image_option, write_file


@click.command("build-installer")
@image_option
@click.option(
    "--output",
    "-o",
    default="dist/install.yaml",
    show_default=True,
    metavar="FILE",
    help="File, or - for stdout.",
)
def build_installer_command(image: str | None, output: str) -> None:
    """Write one file with all objects of the deployment, in the order in which they can be applied.

    \b
    Example:
      kubewright build-installer --image registry.example.com/shop:1.2.0
      kubectl apply --server-side -f dist/install.yaml
    """
    from kubewright.manifests.yaml_output import to_compact_yaml

    deployment = ProjectDeployment.load(image=image)
    text = to_compact_yaml(deployment.objects)
    if output == "-":
        click.echo(text, nl=False)
        return
    write_file(Path(output), text)
    count, used = len(deployment.objects), deployment.settings.deployment.image
    click.echo(f"wrote {output} ({count} objects, image {used})", err=True)
    click.echo(f"Next: kubectl apply --server-side -f {output}", err=True)
