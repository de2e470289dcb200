"""`kubewright bundle validate`: checks a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kubewright.cli.projects.project_changes import output_option


@click.command("validate")
@click.argument("directory", default="bundle", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@output_option
def bundle_validate_command(directory: Path, strict: bool, output: str) -> None:
    """Check the bundle in DIRECTORY by the rules of OLM and of catalogs. No cluster is needed.

    The exit code is 0 without errors, and 1 with errors.

    \b
    Example:
      kubewright bundle validate
      kubewright bundle validate --strict --output json
    """
    if not directory.is_dir():
        raise click.ClickException(f"{directory} is not a directory; write a bundle with kubewright bundle")
    report_findings(directory, output, strict=strict)


def report_findings(directory: Path, output: str, *, strict: bool = False) -> None:
    """Print errors and warnings about a bundle; raise a `ClickException` if there are errors."""
    from kubewright.manifests.bundle import validate_bundle

    findings = validate_bundle(directory)
    errors = [each for each in findings if strict or each.severity == "error"]
    if output == "json":
        document = {
            "directory": str(directory),
            "valid": not errors,
            "findings": [each.to_json() for each in findings],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        for each in findings:
            click.echo(str(each))
    if errors:
        count = len(errors)
        raise click.ClickException(f"{directory} has {count} error{'s' if count > 1 else ''}")
    if output == "text":
        warnings = len(findings)
        suffix = f" ({warnings} warning{'s' if warnings > 1 else ''})" if warnings else ""
        click.echo(f"{directory} is valid{suffix}", err=True)
