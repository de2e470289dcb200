"""CustomResourceDefinitions for commands: from files, stdin or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kubewright.client import Client


@contextmanager
def definition_errors() -> Iterator[None]:
    """Turn errors of definitions and manifests into one line on stderr."""
    from kubewright.client.errors import ManifestError
    from kubewright.scaffold.types.from_crd import CRDError

    try:
        yield
    except (CRDError, ManifestError, FileExistsError) as error:
        raise click.ClickException(str(error)) from None


def read_definitions(source: str, *, kind: str = "", group: str = "") -> list[dict[str, Any]]:
    """Return the definitions in a file, in stdin (`-`) or in the current cluster (`cluster`).

    `kind` and `group` select some of them; a group matches with or without its domain.
    """
    from kubewright.scaffold.types.from_crd import read_crds

    with definition_errors():
        if source == "cluster":
            if not kind:
                raise click.UsageError("--from-crd cluster requires --kind")
            found = _from_cluster()
        else:
            # A line break tells text from a path.
            found = read_crds(sys.stdin.read() + "\n" if source == "-" else source)
    selected = [
        crd
        for crd in found
        if kind in ("", crd["spec"]["names"]["kind"])
        and (not group or crd["spec"]["group"] == group or crd["spec"]["group"].startswith(f"{group}."))
    ]
    if not selected:
        wanted = " ".join(part for part in (kind, f"in group {group}" if group else "") if part)
        kinds = ", ".join(sorted({crd["spec"]["names"]["kind"] for crd in found})[:10])
        raise click.ClickException(f"no CustomResourceDefinition of {wanted}; found: {kinds}")
    return selected


def _from_cluster() -> list[dict[str, Any]]:
    from kubewright.api.encoding.codec import to_plain
    from kubewright.cli.project_deployment import run_on_cluster

    found: list[dict[str, Any]] = []

    async def read(client: Client) -> None:
        async for each in client.list("customresourcedefinitions.apiextensions.k8s.io"):
            found.append(to_plain(each))

    run_on_cluster(read, kubeconfig=None, context="")
    return found
