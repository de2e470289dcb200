"""Modules of the classes of built-in kinds, found without importing them."""

from __future__ import annotations

import re
from pathlib import Path

import kubewright.api
from kubewright.scaffold.errors import ScaffoldError


def builtin_module(group: str, version: str, kind: str) -> str:
    """Return the module with the class of a built-in kind: `kubewright.api.apps.v1`."""
    root = Path(kubewright.api.__file__).parent
    name = (group or "core").partition(".")[0]
    path = root / name / f"{version}.py"
    if path.is_file() and re.search(rf"^class {kind}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
        return f"kubewright.api.{name}.{version}"
    raise ScaffoldError(
        f"{kind} is not a built-in kind of {group or 'core'}/{version}; for a kind of another project use "
        "--external-type PACKAGE.MODULE:CLASS, for a kind of this project omit --no-resource"
    )
