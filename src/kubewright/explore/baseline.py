"""Baselines: violations that are known and accepted, so that only new ones fail a build.

    accepted:
    - scenario: resize
      violation: final-state
      message: 'ConfigMap default/a: data.size is ''#'' instead of ''#'''
      reason: the size is corrected by the next resync

Numbers in messages are `#`, and generated names end with `*`: a violation is recognised in other runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .exploration import Exploration, Violation

_FIELDS = ("scenario", "violation", "message")


class BaselineError(ValueError):
    """A baseline file is not valid; the message says what is expected."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Accepted violations: scenario, name and message."""

    accepted: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Baseline:
        """Read a file; raise `BaselineError`."""
        try:
            data: Any = yaml.safe_load(Path(path).read_text())
        except OSError as error:
            raise BaselineError(f"cannot read {path}: {error.strerror}") from None
        except (yaml.YAMLError, ValueError) as error:
            raise BaselineError(f"{path} is not YAML: {str(error).splitlines()[0]}") from None
        entries = data.get("accepted") if isinstance(data, dict) else None
        if not isinstance(entries, list):
            raise BaselineError(f"{path} is not a baseline; expected a list `accepted`")
        found = []
        for number, each in enumerate(entries):
            values = [each.get(name) for name in _FIELDS] if isinstance(each, dict) else []
            texts = [value for value in values if isinstance(value, str)]
            if len(texts) != len(_FIELDS):
                raise BaselineError(f"{path}: accepted[{number}] must have {', '.join(_FIELDS)}")
            found.append((texts[0], texts[1], texts[2]))
        return cls(tuple(found))

    @staticmethod
    def of(result: Exploration) -> str:
        """Return the content of a file that accepts all violations of a result."""
        entries = [dict(zip(_FIELDS, _key(each), strict=True)) for each in result.violations]
        text: str = yaml.safe_dump({"accepted": entries}, sort_keys=False, width=100)
        return text

    def apply(self, result: Exploration) -> None:
        """Remove accepted violations from a result, and note them."""
        keys = {_key(each): each for each in result.violations}
        found = [each for each in self.accepted if each in keys]
        result.violations = [each for key, each in keys.items() if key not in found]
        for scenario, name, message in found:
            result.notes.append(f"accepted by the baseline: {scenario}: {name}: {message}")
        if not result.is_exhausted:
            for scenario, name, message in self.accepted:
                if (scenario, name, message) not in keys:
                    result.notes.append(f"not found any more, remove it: {scenario}: {name}: {message}")


def _key(violation: Violation) -> tuple[str, str, str]:
    name, message = violation.key
    return violation.scenario, name, message
