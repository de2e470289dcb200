"""The planted operators by name."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

from .kinds import Planted

_OTHERS = ("__main__", "catalogue", "kinds", "sites")
NAMES = sorted(each.stem for each in Path(__file__).parent.glob("*.py") if each.stem not in _OTHERS)


def load(name: str) -> Planted:
    """Return a planted operator, whose scenario has its name."""
    planted: Planted = importlib.import_module(f"tests.explore.planted.{name}").PLANTED
    return replace(planted, scenario=replace(planted.scenario, name=name, timeout=300.0))


__all__ = ["NAMES", "Planted", "load"]
