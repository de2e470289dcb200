"""The stored files are consistent: sources, recordings, index and known differences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.cases import Case, load_sources
from tests.conformance.exchange import export_files, import_files
from tests.conformance.generate import generate_cases
from tests.conformance.known import known_file, prune, read_known, write_known
from tests.conformance.recordings import (
    NOT_RECORDED,
    RECORDINGS,
    Recording,
    read_all,
    read_index,
    read_missing,
    recorded_servers,
    write,
)
from tests.conformance.version_differences import differences_of

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
    assert sum(path.stat().st_size for path in RECORDINGS.rglob("*.*")) < MAX_BYTES


@pytest.mark.parametrize("version", list(recorded_servers()))
def test_known_differences_name_recorded_steps(version: str) -> None:
    recordings = read_all(version=version)
    steps = {(each.case.name, record["step"]) for each in recordings for record in each.responses}
    assert not read_known(known_file(version)).keys() - steps


@pytest.mark.parametrize("version", list(recorded_servers())[1:])
def test_versions_have_the_cases_of_the_newest(version: str) -> None:
    missing = read_missing(version=version)
    assert len(read_all(version=version)) + len(missing) == len(read_all())
    assert not [name for name, reason in missing.items() if reason == NOT_RECORDED]


def test_recordings_of_versions_are_read_as_they_were_written(tmp_path: Path) -> None:
    case, other = Case("crud/a", {"steps": [{"do": "GET /a"}]}), Case("crud/b", {"steps": [{"do": "GET /b"}]})
    response = {"step": 0, "request": "GET /a", "status": 200, "body": {"resourceVersion": "{rv1}"}}
    gone = {"step": 0, "request": "GET /a", "status": 404}
    old = [Recording(case, [gone]), Recording(other, [response])]
    write(old, "v1.36.4", tmp_path)
    write([Recording(case, [response]), Recording(other, [response])], "v1.37.0", tmp_path)
    write([Recording(case, [], "POST /a: 404"), Recording(other, [response])], "v1.35.1", tmp_path)
    assert list(recorded_servers(tmp_path)) == ["1.37", "1.36", "1.35"]
    assert read_all(root=tmp_path)[0].responses == [response]
    assert read_all(root=tmp_path, version="1.36") == old
    assert read_all(root=tmp_path, version="1.35") == [Recording(other, [response])]
    assert read_missing(tmp_path, "1.35") == {"crud/a": "POST /a: 404"}
    differing = {each.recording.case.name: each.steps for each in differences_of("1.36", root=tmp_path)}
    assert differing == {"crud/a": [0]}
    with pytest.raises(ValueError, match=r"1\.30 is not recorded; recorded are 1\.37, 1\.36, 1\.35"):
        read_all(root=tmp_path, version="1.30")
    changed = Recording(Case("crud/a", {"steps": [{"do": "GET /c"}]}), [response])
    write([changed], "v1.37.0", tmp_path)
    assert read_missing(tmp_path, "1.36") == {"crud/a": "not recorded"}


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
