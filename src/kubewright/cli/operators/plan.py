"""`kubewright plan`: shows what an operator would do with the objects of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from kubewright.cli.project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from kubewright.rehearse.plans.model import Plan
    from kubewright.rehearse.plans.planner import PlanOptions
    from kubewright.rehearse.snapshot import ClusterSnapshot


class PlanCommand(click.Command):
    """A command whose exit code 2 means changes: wrong usage is an error like others, with code 1."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parse the arguments."""
        with _usage_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _usage_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        vars(error)["exit_code"] = 1  # instead of that of the class
        raise


@click.command("plan", cls=PlanCommand)
@click.argument("operator", required=False, metavar="[MODULE:OPERATOR]")
@click.option(
    "--from",
    "source",
    metavar="CONTEXT|FILE|DIR",
    help="Context or kubeconfig of a cluster; or an export: kubewright export, kubectl get -o yaml.",
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Kubeconfig file with the context.")
@click.option(
    "--namespace", "-n", "namespaces", multiple=True, help="Namespace to read from a cluster; repeat it."
)
@click.option(
    "--against",
    metavar="REVISION|WHEEL|DIR",
    help="Previous version: Git revision, wheel or directory. Only differences to it are shown.",
)
@click.option(
    "--command", metavar="COMMAND", help="Plan a program, such as 'kopf run shop.py', instead of an operator."
)
@click.option(
    "--manifests",
    "-f",
    "manifest_files",
    multiple=True,
    metavar="FILE|DIR",
    help="Manifests to apply before the start, such as new CRDs; repeat it.",
)
@click.option(
    "--assume",
    type=click.Choice(["ready", "nothing"]),
    default="ready",
    show_default=True,
    help="Whether workloads that are created become ready.",
)
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    default="",
    help="Use its permissions in the cluster.  [default: the generated rules of the operator]",
)
@click.option(
    "--fakes",
    multiple=True,
    metavar="MODULE",
    help="Module with fakes of other systems; repeat it.  [default: fakes in [tool.kubewright]]",
)
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="YAML file with allow and deny rules."
)
@click.option(
    "--quiet-seconds", type=float, help="Seconds without a change after which the operator is idle."
)
@click.option("--all", "all_changes", is_flag=True, help="Print what controllers of the cluster do as well.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False), help="Write the plan as JSON; - prints it."
)
@click.option(
    "--markdown", "markdown_file", type=click.Path(dir_okay=False), help="Write the plan as Markdown."
)
@click.option("--html", "html_file", type=click.Path(dir_okay=False), help="Write the plan as HTML.")
def plan_command(
    operator: str | None,
    source: str | None,
    kubeconfig: str | None,
    namespaces: tuple[str, ...],
    against: str | None,
    command: str | None,
    manifest_files: tuple[str, ...],
    assume: str,
    service_account: str,
    fakes: tuple[str, ...],
    policy_file: Path | None,
    quiet_seconds: float | None,
    all_changes: bool,
    json_file: str | None,
    markdown_file: str | None,
    html_file: str | None,
) -> None:
    """Show what an operator would do with the objects of a cluster, without changing it.

    The objects are read with lists only, and loaded into a control plane in this process, of the same version
    of Kubernetes. The operator runs there with its own permissions, in virtual time, until it is idle; calls
    of other systems are blocked, unless they have a fake.

    Exit codes: 0 nothing would change, 2 something would, 3 something would be disrupted, 1 error: also wrong
    usage, a failing reconcile, a missing permission, a blocked call, or a change that the policy denies.

    \b
    Example:
      kubewright plan shop:operator --from staging
      kubewright plan shop:operator --from staging.json.gz --against v1.2.0 --markdown plan.md
      kubewright plan --command 'kopf run shop.py' --from staging.json -f crds/
    """
    from kubewright.cli.snapshot_source import read_source
    from kubewright.rehearse.plans.planner import PlanOptions
    from kubewright.rehearse.plans.policy import PlanPolicy, PolicyError
    from kubewright.rehearse.plans.program_planner import QUIET_SECONDS as PROGRAM_QUIET_SECONDS
    from kubewright.rehearse.rehearsal import QUIET_SECONDS

    if source is None:
        raise click.UsageError("--from is missing: a context, a kubeconfig or an export")
    if bool(operator) == bool(command):
        raise click.UsageError("pass either MODULE:OPERATOR or --command")
    if service_account and service_account.count("/") != 1:
        raise click.UsageError(f"--service-account {service_account!r} is not of the form namespace/name")
    add_project_to_path()
    try:
        policy = PlanPolicy.read(policy_file) if policy_file is not None else PlanPolicy()
    except PolicyError as error:
        raise click.ClickException(str(error)) from None
    options = PlanOptions(
        assume=cast("Literal['ready', 'nothing']", assume),
        service_account=service_account,
        manifests=_manifests(manifest_files),
        fakes=fakes or project_fakes(),
        quiet=quiet_seconds or (QUIET_SECONDS if operator else PROGRAM_QUIET_SECONDS),
    )
    rules = None
    if operator:
        from kubewright.cli.clusters.export import operator_rules

        rules = operator_rules(operator)
    snapshot = read_source(source, kubeconfig=kubeconfig, rules=rules, namespaces=namespaces)
    plan = (
        make_plan(operator, snapshot, options, against)
        if operator
        else _plan_program(command or "", snapshot, options, against)
    )
    policy.apply(plan)
    _write_reports(plan, {"json": json_file, "markdown": markdown_file, "html": html_file})
    if json_file != "-":
        print_plan(plan, all_changes=all_changes)
    sys.exit(plan.exit_code)


def make_plan(
    operator: str, snapshot: ClusterSnapshot, options: PlanOptions, against: str | None = None
) -> Plan:
    """Return the plan of an operator; expected errors become one line."""
    from kubewright.explore.simulation.factories import FactoryError, ModuleFactory
    from kubewright.rehearse.plans.declared_fakes import FakesError
    from kubewright.rehearse.plans.planner import plan_operator
    from kubewright.rehearse.plans.versions import (
        VersionError,
        previous_version,
        run_previous_version,
        without_known,
    )

    try:
        if against is None:
            return plan_operator(ModuleFactory(operator), snapshot, options).plan
        module = operator.partition(":")[0]
        with previous_version(against, module=module) as version:
            start, result = run_previous_version(version, operator, snapshot, options)
        planned = plan_operator(ModuleFactory(operator), start, options).plan
        planned.against, planned.objects = against, len(snapshot)
        planned.notes += [f"{against} failed as well: {each}" for each in result.errors]
        without_known(planned, result.known)
        return planned
    except (FactoryError, FakesError, VersionError) as error:
        raise click.ClickException(relative_paths(error)) from None


def project_fakes() -> tuple[str, ...]:
    """Return the modules with fakes in the settings of the project."""
    from kubewright.manifests import ProjectSettings, ProjectSettingsError

    try:
        return tuple(ProjectSettings.find().fakes)
    except ProjectSettingsError as error:
        raise click.ClickException(relative_paths(error)) from None


def _plan_program(command: str, snapshot: ClusterSnapshot, options: PlanOptions, against: str | None) -> Plan:
    from kubewright.explore.foreign.process import CommandError
    from kubewright.rehearse.plans.declared_fakes import FakesError
    from kubewright.rehearse.plans.program_planner import plan_program
    from kubewright.rehearse.plans.versions import VersionError, known_texts, previous_version, without_known

    async def run() -> Plan:
        if against is None:
            return (await plan_program(command, snapshot, options, quiet=options.quiet)).plan
        old = replace(options, manifests=())
        with previous_version(against, module="") as version:
            where = version.directory
            first = await plan_program(command, snapshot, old, directory=where, quiet=options.quiet)
            known = await plan_program(command, first.final, old, directory=where, quiet=options.quiet)
        planned = (await plan_program(command, first.final, options, quiet=options.quiet)).plan
        planned.against, planned.objects = against, len(snapshot)
        without_known(planned, known_texts(known.plan))
        return planned

    try:
        return asyncio.run(run())
    except (CommandError, FakesError, VersionError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None


def _manifests(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    from kubewright.api.apply_order import in_apply_order
    from kubewright.rehearse.export_files import read_export
    from kubewright.rehearse.plans.object_changes import without_server_fields
    from kubewright.rehearse.snapshot import SnapshotError

    objects: list[dict[str, Any]] = []
    for path in paths:
        try:
            objects += read_export(path)
        except SnapshotError as error:
            raise click.ClickException(str(error).partition("; write it with")[0]) from None
    return [without_server_fields(each) for each in in_apply_order(objects)]


def print_plan(plan: Plan, *, all_changes: bool = False) -> None:
    """Print a plan."""
    from rich.console import Console

    from kubewright.rehearse.plans import text

    text.print_plan(plan, Console(highlight=False, soft_wrap=True), all_changes=all_changes)


def _write_reports(plan: Plan, files: dict[str, str | None]) -> None:
    from kubewright.rehearse.plans.html import html_of
    from kubewright.rehearse.plans.markdown import markdown_of

    formats = {
        "json": lambda each: json.dumps(each.to_dict(), indent=2) + "\n",
        "markdown": markdown_of,
        "html": html_of,
    }
    for name, path in files.items():
        if path == "-":
            click.echo(formats[name](plan), nl=False)
        elif path is not None:
            try:
                Path(path).write_text(formats[name](plan), encoding="utf-8")
            except OSError as error:
                raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
