"""Explored controllers: those of workloads and those of the control plane."""

from __future__ import annotations

from tests.explore.controllers.table import Explored


def all_explored() -> list[Explored]:
    """Return all scenarios with their controllers."""
    from tests.explore.controllers import control_plane, workloads

    return [*control_plane.explored(), *workloads.explored()]
