"""Import path of the modules of a user's project."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def add_project_to_path() -> None:
    """Add the current directory and its `src` to the front of `sys.path`."""
    for folder in ("src", ""):
        path = str(Path.cwd() / folder)
        if Path(path).is_dir() and path not in sys.path:
            sys.path.insert(0, path)


def relative_paths(text: object) -> str:
    """Return a message with paths relative to the current directory."""
    return str(text).replace(f"{Path.cwd()}{os.sep}", "")
