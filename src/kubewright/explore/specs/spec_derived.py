"""Values for texts of a spec that become something else: a name, a reference or a label of a child.

What a text becomes is found in the state of a healthy object: a child whose name contains the text, or that
has it as a label. It is then tried with the limits of that: too long, and with characters that are not
allowed there. The API server accepts such a spec, unless the schema has the same limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubewright.explore.final_state import NormalisedState

LABEL_LENGTH: Final = 63
NAME_LENGTH: Final = 253


def derived_values(current: Any, healthy: NormalisedState) -> list[str]:
    """Return further values for a text, from what it becomes in a healthy state."""
    if not isinstance(current, str) or not current:
        return []
    found: dict[str, None] = {}
    for kind in _becomes(current, healthy):
        if kind == "label":
            found.update(dict.fromkeys(("x" * (LABEL_LENGTH + 1), f"{current} and more", f"{current}-")))
        else:
            found.update(dict.fromkeys(("x" * (LABEL_LENGTH + 1), "x" * NAME_LENGTH, f"{current}_A")))
    return list(found)


def _becomes(text: str, healthy: NormalisedState) -> Iterator[str]:
    for key, objects in healthy.items():
        for obj in objects:
            if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
                continue
            labels = obj["metadata"].get("labels") or {}
            if any(text in str(value) for value in labels.values()):
                yield "label"
            is_of_spec = text in str(obj.get("spec", ""))
            if text in key.rpartition("/")[2] and not is_of_spec:
                yield "name"
