"""Where the modules of a user's project are found: the current directory and its `src`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def make_importable() -> None:
    """Have modules of the current directory, and of its `src`, found first."""
    for folder in ("src", ""):
        path = str(Path.cwd() / folder)
        if Path(path).is_dir() and path not in sys.path:
            sys.path.insert(0, path)


def shorten(text: object) -> str:
    """A message with paths as seen from the current directory."""
    return str(text).replace(f"{Path.cwd()}{os.sep}", "")
