"""The stored files are consistent: sources, recordings, index and known differences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.cases import load_sources
from tests.conformance.generate import generate_cases
from tests.conformance.known import prune, read_known, write_known
from tests.conformance.recordings import (
    RECORDINGS,
    Recording,
    export_files,
    import_files,
    read_all,
    read_index,
)

MAX_BYTES = 15 << 20


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return read_all()


def test_recordings_hold_the_cases_as_they_are_now(recordings: list[Recording]) -> None:
    recorded = {each.case.name: each.case.document for each in recordings}
    sources = {each.name: json.loads(json.dumps(each.document)) for each in load_sources() + generate_cases()}
    changed = sorted(name for name in sources if recorded.get(name) != sources[name])
    assert not changed, f"record these cases again: {changed}"
    assert recorded.keys() == sources.keys(), "remove recordings without a source: record --prune"


def test_every_recorded_step_has_a_response(recordings: list[Recording]) -> None:
    for each in recordings:
        assert len(each.responses) == each.case.recorded_steps, each.case.name


def test_the_index_counts_the_recordings(recordings: list[Recording]) -> None:
    counted: dict[str, list[int]] = {}
    for each in recordings:
        count = counted.setdefault(each.case.category, [0, 0])
        count[0] += 1
        count[1] += len(each.responses)
    assert {name: [size.cases, size.steps] for name, size in read_index().items()} == counted


def test_recordings_stay_small() -> None:
    assert sum(path.stat().st_size for path in RECORDINGS.iterdir()) < MAX_BYTES


def test_known_differences_name_recorded_steps(recordings: list[Recording]) -> None:
    steps = {(each.case.name, record["step"]) for each in recordings for record in each.responses}
    assert not read_known().keys() - steps


def test_exported_files_can_be_imported(tmp_path: Path) -> None:
    exported = read_all(["crud", "webhooks"])
    assert export_files(exported, tmp_path) == len(exported)
    assert sorted(import_files(tmp_path), key=lambda each: each.case.name) == exported


def test_known_differences_are_written_as_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    known = {("crud/a", 1): "a: reason", ("crud/a", 3): "a: reason", ("watch/b", 0): "another # reason"}
    write_known(known, path)
    assert read_known(path) == known
    write_known(prune(known, {("crud/a", 1), ("crud/a", 3), ("watch/b", 0)}), path)
    assert read_known(path) == {}
