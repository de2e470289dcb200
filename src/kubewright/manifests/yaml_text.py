"""YAML that diffs well: sorted keys, no anchors, no folding, texts of several lines as a block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.CSafeDumper):
    """libyaml's emitter with our habits."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(documents: Iterable[Any]) -> str:
    """Print objects as one YAML stream; the same objects always give the same text."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        explicit_start=True,
        sort_keys=True,
        default_flow_style=False,
        width=1_000_000,
        allow_unicode=True,
    )
