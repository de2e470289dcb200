"""Enums, int-or-string fields, and unions."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Literal

from kubewright.api import (
    AtLeastOneOf,
    AtMostOneOf,
    CustomResource,
    ExactlyOneOf,
    Nullable,
    Pattern,
    Spec,
    Struct,
    mark,
    resource,
)


class Level(IntEnum):
    """Severity of a failed probe."""

    LOW = 1
    HIGH = 2


class HttpGet(Struct):
    """HTTP check."""

    path: str = "/"
    port: int | str


class Command(Struct):
    """Command check."""

    argv: list[str]


@mark(
    ExactlyOneOf("http_get", "command"), AtMostOneOf("timeout", "deadline"), AtLeastOneOf("level", "timeout")
)
class ProbeSpec(Spec):
    """Desired state of a probe: exactly one check."""

    http_get: HttpGet | None = None
    command: Command | None = None
    timeout: int | None = None
    deadline: str | None = None
    level: Level | None = None
    threshold: Annotated[int | str, Pattern("^[0-9]+%$")] | None = None
    mode: Literal["fast"] | Literal["slow"] = "fast"
    note: Annotated[str | None, Nullable]


@resource(group="probe.example.com", version="v1")
class Probe(CustomResource[ProbeSpec, None]):
    """A probe of a workload."""
