"""`kubewright create api`: adds a kind with a controller and tests."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from .kind_options import plural_option, scope_option
from .project_changes import find_project, generate_manifests, output_option, print_changes, scaffold_errors


@click.command("api")
@click.option("--group", default="", help="API group without the domain of the project, such as store.")
@click.option("--version", default="", help="API version, such as v1 or v1alpha1.")
@click.option("--kind", default="", help="Kind in CamelCase, such as Shop.")
@plural_option
@scope_option
@click.option(
    "--resource/--no-resource",
    "own",
    default=True,
    help="Whether to declare the kind; --no-resource is for a built-in kind such as apps/v1 Deployment.",
)
@click.option(
    "--external-type",
    default="",
    metavar="MODULE:CLASS",
    help="Class of a kind whose CRD another project installs; its CRD is not part of this project.",
)
@click.option(
    "--from-crd",
    metavar="FILE|-|cluster",
    help="Generate the types of every version of existing CRDs; --kind and --group select some of them.",
)
@click.option(
    "--external",
    is_flag=True,
    help="With --from-crd: another project installs the CRD; do not generate a manifest.",
)
@click.option(
    "--types-only",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --from-crd: write only the modules with the types to DIR; no project is needed.",
)
@click.option(
    "--template",
    "templates",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of Jinja templates or Helm chart that objects of the kind expand to; no code is needed.",
)
@click.option("--controller/--no-controller", default=True, help="Whether to add a controller.")
@click.option(
    "--image", default="", help="Operand image: add a controller with a Deployment and a Service of it."
)
@click.option("--image-command", default="", help="Command of the operand container.")
@click.option(
    "--image-port",
    default=8080,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port of the operand container.",
)
@click.option(
    "--run-as-user", default=1001, show_default=True, type=click.IntRange(1), help="User of the operand."
)
@click.option("--manifests/--no-manifests", "generates", default=True, help="Whether to generate config.")
@output_option
def create_api_command(
    own: bool,
    external_type: str,
    from_crd: str | None,
    external: bool,
    types_only: Path | None,
    templates: Path | None,
    image_command: str,
    image_port: int,
    generates: bool,
    output: str,
    **options: Any,
) -> None:
    """Add a kind to the project, or a further version of a kind that it has.

    With --template, the spec has the fields of values.yaml and values.schema.json in the folder. A further
    version of a kind starts as a copy of the existing one, with a conversion between them.

    \b
    Example:
      kubewright create api --group store --version v1 --kind Shop
      kubewright create api --group cache --version v1 --kind Memcached --image memcached:1.6
      kubewright create api --group web --version v1 --kind Site --template templates/
      kubewright create api --group apps --version v1 --kind Deployment --no-resource
      kubewright create api --from-crd certificates.yaml --external
      kubectl get crd certificates.cert-manager.io -o yaml | kubewright create api --from-crd -
    """
    if from_crd is not None:
        _create_from_crd(from_crd, external, types_only, generates, output, **options)
        return
    if external or types_only is not None:
        raise click.UsageError("--external and --types-only require --from-crd")
    if templates is not None:
        if not own or external_type or options["image"] or not options["controller"]:
            raise click.UsageError(
                "--template excludes --image, --no-resource, --external-type and --no-controller"
            )
        options["version"] = options["version"] or "v1alpha1"
    for name in ("version", "kind"):
        if not options[name]:
            raise click.UsageError(f"Missing option '--{name}'.")
    from kubewright.scaffold.additions.api import create_api
    from kubewright.scaffold.inputs import ResourceInput

    with scaffold_errors():
        options["origin"] = class_module(own, external_type, **options)
        directory = find_project()
        command = tuple(shlex.split(image_command))
        resource = ResourceInput(command=command, port=image_port, **options)
        if templates is None:
            changes = create_api(directory, resource)
        else:
            from kubewright.scaffold.additions.template_api import create_api_from_templates

            changes = create_api_from_templates(directory, templates, resource)
    if generates:
        generate_manifests(changes)
    print_changes(changes, output)


def _create_from_crd(
    source: str,
    external: bool,
    types_only: Path | None,
    generates: bool,
    output: str,
    *,
    kind: str,
    group: str,
    controller: bool,
    **_: Any,
) -> None:
    from .crd_sources import definition_errors, read_definitions

    definitions = read_definitions(source, kind=kind, group=group)
    if types_only is not None:
        from kubewright.scaffold.types.from_crd import write_types

        with definition_errors():
            for crd in definitions:
                for path in write_types(crd, types_only, external=external):
                    click.echo(f"created {path}")
        return
    from kubewright.scaffold.additions.crd_api import create_apis_from_crds

    with scaffold_errors(), definition_errors():
        changes = create_apis_from_crds(find_project(), definitions, controller=controller, external=external)
    if generates:
        generate_manifests(changes)
    print_changes(changes, output)


def class_module(own: bool, external_type: str, *, group: str, version: str, kind: str, **_: Any) -> str:
    """Return the module of the class of a core or external kind; empty for a kind of the project."""
    if external_type:
        module, _separator, name = external_type.partition(":")
        if not module.replace(".", "_").isidentifier() or name != kind:
            raise click.UsageError(
                f"--external-type {external_type}: expected MODULE:{kind}, as in cert_types.v1:{kind}"
            )
        return module
    if own:
        return ""
    from kubewright.scaffold.types.builtin_kinds import builtin_module

    return builtin_module(group, version, kind)
