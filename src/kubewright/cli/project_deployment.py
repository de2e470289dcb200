"""Shared by the commands that bring a project to a cluster: options, the generated objects, and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.applyset import AppliedChange, ApplySet
    from kubewright.client.readiness import Readiness
    from kubewright.manifests import Manifests, ProjectSettings

CommandT = TypeVar("CommandT", bound=Callable[..., object])

CERTIFICATES_ADVICE = 'install cert-manager, or set certificates = "self-signed"'
MONITOR_ADVICE = "install the Prometheus operator, or set monitor = false"


def cluster_options(command: CommandT) -> CommandT:
    """Add the options of commands that connect to a cluster."""
    for option in (
        click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format."),
        click.option("--dry-run", is_flag=True, help="Print the differences to the cluster; change nothing."),
    ):
        command = option(command)
    return kubeconfig_options(command)


def image_option(command: CommandT) -> CommandT:
    """Add the option that overrides the image of the settings."""
    return click.option("--image", metavar="IMAGE", help="Image of the manager, instead of the settings.")(
        command
    )


@dataclass(frozen=True)
class ProjectDeployment:
    """The objects of the project in the current directory."""

    settings: ProjectSettings

    @classmethod
    def load(cls, *, image: str | None = None, needs_deployment: bool = True) -> ProjectDeployment:
        """Read the settings of the project; raise a `ClickException` if it has no deployment."""
        from kubewright.manifests import ProjectSettings, ProjectSettingsError

        try:
            settings = ProjectSettings.find()
        except ProjectSettingsError as error:
            raise click.ClickException(relative_paths(error)) from None
        if needs_deployment and not settings.has_deployment:
            where = relative_paths(settings.path) if settings.path is not None else "pyproject.toml"
            raise click.ClickException(
                f"{where} has no deployment; add the table [tool.kubewright.deployment], for example with "
                f'image = "{settings.name}:latest"'
            )
        if image:
            settings = replace(settings, deployment=replace(settings.deployment, image=image))
        return cls(settings)

    @property
    def namespace(self) -> str:
        """Namespace of the operator and of the inventory."""
        return f"{self.settings.name}-system"

    @cached_property
    def manifests(self) -> Manifests:
        """The generated manifests; errors in declarations are printed."""
        from kubewright.cli.projects.manifests import generate_project

        add_project_to_path()
        manifests = generate_project(self.settings)
        for warning in manifests.messages:
            click.echo(f"Warning: {warning}", err=True)
        return manifests

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, in the order in which they are applied."""
        from kubewright.api.apply_order import in_apply_order

        tree = self.manifests.tree
        assert tree is not None
        return [
            dict(each) for each in in_apply_order(each for file in tree.objects.values() for each in file)
        ]

    @cached_property
    def definitions(self) -> list[dict[str, Any]]:
        """The CRDs, after the namespace of the inventory."""
        if self.manifests.tree is not None:
            kinds = ("Namespace", "CustomResourceDefinition")
            return [each for each in self.objects if each["kind"] in kinds]
        import yaml

        texts = (text for name, text in self.manifests.files.items() if name.startswith("crd/"))
        documents = [each for text in texts for each in yaml.load_all(text, yaml.CSafeLoader)]
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            *documents,
        ]

    def apply_set(self, client: Client) -> ApplySet:
        """Return the set of all objects of this project in a cluster."""
        import kubewright
        from kubewright.client.applyset import ApplySet

        name = self.settings.name
        return ApplySet(
            client,
            f"{name}-inventory",
            namespace=self.namespace,
            tooling=f"kubewright/v{kubewright.__version__}",
            # `kubewright run` installs CRDs for development under the name of the operator.
            replaced_owners=(name,),
        )


async def require_kinds(client: Client, objects: list[dict[str, Any]]) -> None:
    """Raise a `ClickException` if the cluster does not serve a kind of another project."""
    from kubewright.api.gvk import GroupKind

    served = {each.gvk.group_kind for each in await client.mapper.resources()}
    for kind, advice in (
        (GroupKind("cert-manager.io", "Certificate"), CERTIFICATES_ADVICE),
        (GroupKind("monitoring.coreos.com", "ServiceMonitor"), MONITOR_ADVICE),
    ):
        used = any(
            each["kind"] == kind.kind and each["apiVersion"].startswith(f"{kind.group}/") for each in objects
        )
        if used and kind not in served:
            raise click.ClickException(f"the cluster does not serve {kind}; {advice}")


def run_on_cluster(
    main: Callable[[Client], Coroutine[Any, Any, None]], *, kubeconfig: str | None, context: str
) -> None:
    """Connect to a cluster and run a function; expected errors become one line."""
    from kubewright.api.errors import APIError, Conflict
    from kubewright.client import Client, load_config
    from kubewright.client.applyset_inventory import ApplySetError
    from kubewright.client.errors import ConfigError, ConnectionFailed, NoKindMatch

    async def connect() -> None:
        config = load_config(kubeconfig, context=context)
        click.echo(f"cluster {config.server}, {config.source}", err=True)
        async with Client.connect(config) as client:
            await main(client)

    try:
        asyncio.run(connect())
    except (APIError, ApplySetError, ConfigError, ConnectionFailed, NoKindMatch, TimeoutError) as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        advice = "; take over the fields with --force-conflicts" if isinstance(error, Conflict) else ""
        raise click.ClickException(f"{error}{notes}{advice}") from None


class ChangeReport:
    """Prints changes as they happen, or all of them as JSON at the end."""

    def __init__(self, deployment: ProjectDeployment, *, output: str, dry_run: bool) -> None:
        self._deployment = deployment
        self._json = output == "json"
        self._dry_run = dry_run
        self._changes: list[AppliedChange] = []
        self._started = time.monotonic()

    async def consume(self, changes: AsyncIterator[AppliedChange]) -> list[AppliedChange]:
        """Print each change; with a dry run, the difference to the stored object."""
        async for change in changes:
            self._changes.append(change)
            if self._json:
                continue
            if self._dry_run:
                click.echo(difference(change), nl=False)
            else:
                click.echo(str(change))
        return self._changes

    def finish(self, *, is_ready: bool | None = None, next_step: str = "") -> None:
        """Print the summary, or the JSON document; `is_ready` is `None` if readiness was not awaited."""
        counts = dict.fromkeys(("created", "configured", "unchanged", "deleted", "kept", "released"), 0)
        for change in self._changes:
            counts[change.action] += 1
        if self._json:
            document = {
                "project": self._deployment.settings.name,
                "namespace": self._deployment.namespace,
                "dryRun": self._dry_run,
                "ready": is_ready,
                "changes": [_to_json(change) for change in self._changes],
            }
            click.echo(json.dumps(document, indent=2))
            return
        parts = ", ".join(f"{count} {action}" for action, count in counts.items() if count)
        ready = f"; ready after {time.monotonic() - self._started:.0f} s" if is_ready else ""
        click.echo(f"{parts or 'nothing to do'}{' (dry run)' if self._dry_run else ''}{ready}", err=True)
        if next_step and not self._dry_run:
            click.echo(f"Next: {next_step}", err=True)

    @contextlib.contextmanager
    def progress(self) -> Iterator[Callable[[AppliedChange, Readiness], None]]:
        """Show objects that are not ready yet: a status line on a terminal, otherwise a line per change."""
        if self._json or not sys.stderr.isatty():

            def print_line(change: AppliedChange, state: Readiness) -> None:
                if not self._json:
                    click.echo(f"{change.reference}: {state}", err=True)

            yield print_line
            return
        from rich.console import Console

        states: dict[str, str] = {}
        with Console(stderr=True).status("waiting until ready") as status:

            def update(change: AppliedChange, state: Readiness) -> None:
                if state.is_ready:
                    states.pop(change.reference, None)
                    click.echo(f"{change.reference} ready", err=True)
                else:
                    states[change.reference] = f"{change.reference}: {state.message}"
                status.update("; ".join(states.values()) or "waiting until ready")

            yield update


def _to_json(change: AppliedChange) -> dict[str, str]:
    data = {
        "action": change.action,
        "group": change.kind.group,
        "kind": change.kind.kind,
        "name": change.name,
    }
    if change.namespace:
        data["namespace"] = change.namespace
    if change.reason:
        data["reason"] = change.reason
    return data


def difference(change: AppliedChange) -> str:
    """Return a unified diff between the stored object and the object after the change; empty if equal."""
    import difflib

    from kubewright.client.applyset import comparable
    from kubewright.manifests import to_yaml

    place = f"{change.namespace}/" if change.namespace else ""
    name = f"{change.kind}/{place}{change.name}"
    if change.action in ("deleted", "kept", "released"):
        reason = f" ({change.reason})" if change.reason else ""
        return (
            f"# {name} {'would be deleted' if change.action == 'deleted' else f'{change.action}{reason}'}\n"
        )
    before = to_yaml([comparable(change.before)]) if change.before is not None else ""
    after = to_yaml([comparable(change.after)]) if change.after is not None else ""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"{name} (cluster)" if change.before is not None else "/dev/null",
        f"{name} (applied)",
    )
    return "".join(lines)


def write_file(path: Path, text: str) -> None:
    """Write a file and its directories; errors become one line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
