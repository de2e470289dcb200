"""A scheduled command: phases as an enum, one column of each type."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api import (
    Column,
    CustomResource,
    Immutable,
    MinLen,
    Rbac,
    Spec,
    Status,
    Time,
    declares,
    resource,
)


class Phase(StrEnum):
    """Phase of the command."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"


class AtSpec(Spec):
    """Desired state of an At."""

    schedule: Annotated[Time, Immutable]
    """Time of the run, in UTC."""

    command: Annotated[str, MinLen(1), Immutable]
    """Command to run; arguments are separated by spaces."""


class AtStatus(Status):
    """Observed state of an At."""

    phase: Phase | None = None


@declares(
    Rbac(groups=("core",), resources=("pods",), verbs=("get", "list", "watch", "create")),
    Rbac(groups=("cnat.programming-kubernetes.info",), resources=("ats", "ats/status"), verbs=("*",)),
)
@resource(
    group="cnat.programming-kubernetes.info",
    version="v1alpha1",
    columns=(
        Column("Schedule", ".spec.schedule", "date"),
        Column("Command", ".spec.command", priority=1),
        Column("Phase", ".status.phase", description="How far the command is."),
    ),
)
class At(CustomResource[AtSpec, AtStatus]):
    """Runs a command once at a given time."""
