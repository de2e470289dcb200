"""Number of examples of the property tests of attacks: small in `make test`, larger in `make attack`."""

from __future__ import annotations

import os


def examples(default: int) -> int:
    """Return the number of examples: `KUBEWRIGHT_ATTACK` if it is larger than the default."""
    return max(default, int(os.environ.get("KUBEWRIGHT_ATTACK") or 0))
