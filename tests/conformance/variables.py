"""Substitution of `$(name)` in cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\(([\w.-]+)\)")


def substitute(node: Any, variables: Mapping[str, Any]) -> Any:
    """Replace every reference; a string that is nothing but a reference takes the type of the value.

    A variable that is not defined (an earlier step failed to capture it) becomes `missing-NAME`.
    """
    if isinstance(node, str):
        if "$(" not in node:
            return node
        whole = _REFERENCE.fullmatch(node)
        if whole:
            return variables.get(whole[1], f"missing-{whole[1]}")
        return _REFERENCE.sub(lambda match: str(variables.get(match[1], f"missing-{match[1]}")), node)
    if isinstance(node, dict):
        return {substitute(key, variables): substitute(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [substitute(value, variables) for value in node]
    return node
