"""Fixtures shared with the tests of custom resource definitions."""

from ..crds.conftest import (  # noqa: TID252 - the test directory is not an importable package
    CRDS,
    Hooks,
    Talk,
    base,
    definition,
    hooks,
    plane,
    serve_hooks,
    talk,
    widget,
)

__all__ = ["CRDS", "Hooks", "Talk", "base", "definition", "hooks", "plane", "serve_hooks", "talk", "widget"]
