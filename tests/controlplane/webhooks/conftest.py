"""Webhooks are tested on what definitions are: a control plane in process and a webhook server to call."""

from ..crds.conftest import (  # noqa: TID252 - the tests are no package that could be named
    CRDS,
    Hooks,
    Talk,
    base,
    definition,
    hooks,
    plane,
    talk,
    widget,
)

__all__ = ["CRDS", "Hooks", "Talk", "base", "definition", "hooks", "plane", "talk", "widget"]
