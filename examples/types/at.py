"""A command at a time: phases as an enum, a column of each kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api.declarations import Column, Rbac, declares, resource
from kubewright.api.markers import Immutable, MinLen
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec, Status
from kubewright.api.times import Time


class Phase(StrEnum):
    """How far the command is."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"


class AtSpec(Spec):
    """What to run when."""

    schedule: Annotated[Time, Immutable]
    """When to run, in UTC."""

    command: Annotated[str, MinLen(1), Immutable]
    """What to run; words are split at spaces."""


class AtStatus(Status):
    """How far it is."""

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
    """Runs a command once, at a time."""
