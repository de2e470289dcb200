"""`kubewright apply`: applies manifests to a cluster, as `kubectl apply --server-side`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options

if TYPE_CHECKING:
    from kubewright.api.unstructured import Unstructured
    from kubewright.client import Client
    from kubewright.client.manifest_files import ManifestObject


@click.command("apply")
@click.option(
    "--filename",
    "-f",
    "sources",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="YAML or JSON file, directory of these, or - for stdin; can be repeated.",
)
@kubeconfig_options
@click.option("--namespace", "-n", default=None, help="Namespace of objects that have none.")
@click.option(
    "--field-manager", default="kubewright", show_default=True, help="Manager of the applied fields."
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers have applied.")
@click.option("--dry-run", is_flag=True, help="Let the API server check the objects without storing them.")
def apply_command(
    sources: tuple[str, ...],
    kubeconfig: str | None,
    context: str,
    namespace: str | None,
    field_manager: str,
    force_conflicts: bool,
    dry_run: bool,
) -> None:
    """Create or update the objects of manifests with server-side apply.

    Files can have several documents and `kind: List`. All files are read before the first object is applied.

    \b
    Example:
      kubewright apply -f config/samples --context kind-kind
    """
    from kubewright.api.errors import APIError, Conflict
    from kubewright.client import Client, load_config
    from kubewright.client.errors import ConfigError, ConnectionFailed, ManifestError, NoKindMatch

    async def main() -> None:
        objects = [each for source in sources for each in _read(source)]
        config = load_config(kubeconfig, context=context)
        async with Client.connect(config) as client:
            await _apply(
                client.with_field_manager(field_manager),
                objects,
                namespace=namespace,
                force=force_conflicts,
                dry_run=dry_run,
            )

    try:
        asyncio.run(main())
    except (APIError, ConfigError, ConnectionFailed, ManifestError, NoKindMatch, TimeoutError) as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        conflict = isinstance(error, Conflict) and not force_conflicts
        advice = "; take over the fields with --force-conflicts" if conflict else ""
        raise click.ClickException(f"{error}{notes}{advice}") from None


def _read(source: str) -> list[ManifestObject]:
    from kubewright.client.manifest_files import read_manifests

    # Text is recognised by a line break.
    return read_manifests(sys.stdin.read() + "\n" if source == "-" else source)


async def _apply(
    client: Client, objects: list[ManifestObject], *, namespace: str | None, force: bool, dry_run: bool
) -> None:
    """Apply objects and print `kind/name created`, `configured` or `unchanged` for each."""
    from kubewright.client.verbs.apply_yaml import apply_objects

    before = await _find(client, objects[0], namespace) if objects else None
    number = 0
    async for obj in apply_objects(client, objects, namespace=namespace, force=force, dry_run=dry_run):
        change = "created" if before is None else "unchanged" if _is_equal(before, obj) else "configured"
        group, _, _ = obj.api_version.rpartition("/")
        kind = f"{obj.kind.lower()}.{group}" if group else obj.kind.lower()
        click.echo(f"{kind}/{obj.name} {change}{' (dry run)' if dry_run else ''}")
        number += 1
        if number < len(objects):
            before = await _find(client, objects[number], namespace)


async def _find(client: Client, manifest: ManifestObject, namespace: str | None) -> Unstructured | None:
    """Return the stored version of an object; `None` if it or its kind does not exist."""
    from kubewright.api.gvk import GroupVersionKind
    from kubewright.client.errors import NoKindMatch

    data: dict[str, Any] = manifest.data
    metadata = data.get("metadata") or {}
    kind = GroupVersionKind.from_api_version(data["apiVersion"], data["kind"])
    try:
        found: Unstructured | None = await client.get_or_none(
            kind, metadata.get("name", ""), namespace=metadata.get("namespace") or namespace
        )
    except (NoKindMatch, ValueError):
        return None  # apply reports the reason
    return found


def _is_equal(before: Unstructured, after: Unstructured) -> bool:
    """Whether two versions of an object differ only in fields that every write sets."""

    def content(obj: Unstructured) -> dict[str, Any]:
        ignored = ("managedFields", "resourceVersion", "generation")
        metadata = {name: value for name, value in obj.raw["metadata"].items() if name not in ignored}
        return {**obj.raw, "metadata": metadata}

    return content(before) == content(after)
