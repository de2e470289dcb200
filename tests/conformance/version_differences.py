"""What a Kubernetes version returns that the newest does not: the steps that are replayed for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.compare import Comparer
from tests.conformance.normalise import UID, ResourceVersion
from tests.conformance.recordings import RECORDINGS, Recording, read_category, read_index

_IDENTITY = re.compile(r"\{(rv|uid)(\d+)\}")


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """A case as far as its responses differ from those of the newest version."""

    recording: Recording
    """The case, without the steps after the last one that differs."""
    steps: list[int]
    """Numbers of the steps that differ."""


def differences_of(
    version: str, categories: Iterable[str] = (), *, level: int = 2, root: Path = RECORDINGS
) -> Iterator[VersionDifference]:
    """Yield the cases of a version whose responses differ from those of the newest at a level."""
    for category in categories or read_index(root):
        newest = {each.case.name: each for each in read_category(category, root)}
        for recording in read_category(category, root, version):
            other = newest.get(recording.case.name)
            if other is None:
                yield VersionDifference(recording, [each["step"] for each in recording.responses])
            elif other.responses != recording.responses:
                steps = differing_steps(other, recording, level=level)
                if steps:
                    yield VersionDifference(_shortened(recording, steps[-1]), steps)


def differing_steps(expected: Recording, other: Recording, *, level: int = 2) -> list[int]:
    """Return the steps at which two recordings of a case differ; numbers of uids and versions may differ."""
    comparer = Comparer()
    return [
        one["step"]
        for one, two in zip(expected.responses, other.responses, strict=True)
        if any(each.level <= level for each in comparer.compare(one, _with_identities(two)))
    ]


def _shortened(recording: Recording, last: int) -> Recording:
    document = recording.case.document
    case = Case(recording.case.name, {**document, "steps": document["steps"][: last + 1]})
    return replace(recording, case=case, responses=[e for e in recording.responses if e["step"] <= last])


def _with_identities(value: Any) -> Any:
    """Turn the placeholders of a recording into values that a comparison binds."""
    if isinstance(value, str):
        match = _IDENTITY.fullmatch(value)
        if match is None:
            return value
        return (ResourceVersion if match[1] == "rv" else UID)(match[2])
    if isinstance(value, list):
        return [_with_identities(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_identities(each) for key, each in value.items()}
    return value
