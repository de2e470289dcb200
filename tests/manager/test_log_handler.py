"""The log handler of processes that must start fast."""

from __future__ import annotations

import io
import json
import logging

import pytest

from kubewright.manager.observability.log_handler import LazyLogHandler, log_to_stderr


@pytest.mark.parametrize("is_json", [False, True])
def test_lines_have_their_fields(is_json: bool) -> None:
    handler = LazyLogHandler()
    handler.is_json = is_json
    handler.stream = stream = io.StringIO()
    record = logging.makeLogRecord({"msg": "cannot reload", "levelno": 40, "levelname": "ERROR", "file": "a"})
    handler.emit(record)
    if is_json:
        assert json.loads(stream.getvalue())["file"] == "a"
    else:
        assert stream.getvalue().endswith("ERROR   cannot reload file=a\n")


def test_an_existing_configuration_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    log_to_stderr()
    log_to_stderr()
    assert [type(each) for each in root.handlers] == [LazyLogHandler]
