"""`Profile`: a scheduler name with its plug-ins, their weights and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .plugin import Plugin

DEFAULT_SCHEDULER = "default-scheduler"


class ProfileError(ValueError):
    """A profile is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Configuration of one `spec.schedulerName`.

    Profile(
        scheduler_name="batch",
        plugins=[PreferIdleNodes],
        weights={"PreferIdleNodes": 5},
        plugin_args={"NodeResourcesFit": {"strategy": "MostAllocated"}},
        disabled=["NodeResourcesBalancedAllocation"],
    )
    """

    scheduler_name: str = DEFAULT_SCHEDULER
    plugins: Sequence[type[Plugin]] = ()
    """Plug-ins in addition to the default ones; a class with the name of a default plug-in replaces it."""
    disabled: Sequence[str] = ()
    """Names of default plug-ins to leave out; `*` for all of them, `Name.hook` for a single hook."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Weights of Score plug-ins, by name; 1 unless set here or by default."""
    plugin_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keyword arguments of plug-ins, by name."""
    percentage_of_nodes_to_score: int | None = None
    """Stop searching when this share of all nodes fits; 0 adapts it to the size of the cluster."""
