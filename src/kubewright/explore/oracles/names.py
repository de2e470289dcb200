"""Names of the variations and default checks, with which a scenario or the command line switches them off."""

from __future__ import annotations

from typing import Final

VARIATIONS: Final = (
    "restart",
    "settled",
    "process",
    "deletion",
    "early-deletion",
    "namespace-deletion",
    "create-again",
    "instances",
    "collisions",
    "apply-again",
    "split",
    "pages",
    "versions",
    "round-trip",
    "input",
    "late",
)
DEFAULT_CHECKS: Final = (
    "adoption",
    "claims",
    "deleting-owner",
    "deletions",
    "early-claim",
    "finalizers",
    "needless-writes",
    "owners",
    "regenerated",
    "regression",
    "status",
    "terminating",
    "two-writers",
)
ORACLES: Final = (*VARIATIONS, *DEFAULT_CHECKS)
LATE_WRITE: Final = "late-write"
"""Name of findings about writes of a leader that was paused; they are warnings."""
