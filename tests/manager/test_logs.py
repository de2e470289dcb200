"""Log lines as JSON and for the console."""

from __future__ import annotations

import io
import json
import logging

from kubewright.controller import Request
from kubewright.controller.controller import ReconcileInfo, current_reconcile
from kubewright.manager import ObjectLogger
from kubewright.manager.observability import logs


def lines(style: str, *, level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    logs.setup(style, level, stream)  # type: ignore[arg-type]
    return stream


def test_json_has_one_object_per_line_with_the_fields_of_the_object() -> None:
    stream = lines("json")
    log = ObjectLogger(
        logging.getLogger("op.guestbook"), {"kind": "Guestbook", "namespace": "d", "object": "a"}
    )
    log.info("wrote %d", 3, extra={"size": 7, "thing": object})
    log.debug("not shown")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("ts").endswith("+00:00")
    assert entry == {
        "level": "info",
        "logger": "op.guestbook",
        "msg": "wrote 3",
        "kind": "Guestbook",
        "namespace": "d",
        "object": "a",
        "size": 7,
        "thing": "<class 'object'>",
    }


def test_lines_inside_a_reconcile_have_its_fields() -> None:
    stream = lines("json")
    token = current_reconcile.set(ReconcileInfo("guestbook", Request("d", "a"), "7f-1"))
    try:
        logging.getLogger("some.library").warning("odd")
    finally:
        current_reconcile.reset(token)
    logging.getLogger("some.library").warning("outside")
    inside, outside = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (inside["controller"], inside["reconcile_id"]) == ("guestbook", "7f-1")
    assert (inside["namespace"], inside["object"]) == ("d", "a")
    assert "controller" not in outside


def test_tracebacks_are_one_field() -> None:
    stream = lines("json")
    try:
        raise ValueError("bad\nluck")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["error"] == "ValueError: bad\nluck"
    assert entry["stacktrace"].startswith("Traceback")


def test_console_lines_have_the_message_and_then_the_fields() -> None:
    stream = lines("console")
    log = ObjectLogger(logging.getLogger("op"), {"kind": "Guestbook", "namespace": "d", "object": "a"})
    log.warning("quota exceeded", extra={"limit": 0.5, "error": 'no "space" left'})
    logging.getLogger("plain").info("started controller", extra={"controller": "shop", "workers": 1})
    first, second = stream.getvalue().splitlines()
    assert first.split(maxsplit=1)[1] == (
        'WARNING quota exceeded kind=Guestbook namespace=d object=a limit=0.5 error="no \\"space\\" left"'
    )
    assert second.split(maxsplit=1)[1] == "INFO    started controller controller=shop workers=1"
    assert "\x1b" not in first
