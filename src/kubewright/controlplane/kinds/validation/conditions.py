"""Rules for `metav1.Condition`."""

from __future__ import annotations

import re

from kubewright.schema import field_errors as fe

from .rules import QUALIFIED_NAME, Enum, Errors, MaxLength, Minimum, Required, Unique
from .table import Rules

STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or"
    " 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is"
    " '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def _reason_errors(reason: str, path: str) -> Errors:
    return [] if _REASON.fullmatch(reason) else [fe.invalid(path, reason, _REASON_RULE)]


CONDITIONS = Rules(
    {
        "[*]": [
            Unique("type", at=""),
            {
                "type": QUALIFIED_NAME,
                "status": Enum(*STATUSES, absent=""),
                "observedGeneration": Minimum(0, "must be greater than or equal to zero"),
                "lastTransitionTime": Required(),
                "reason": [Required(), _reason_errors, MaxLength(1024)],
                "message": MaxLength(32 * 1024),
            },
        ]
    }
)
"""A list of conditions."""
