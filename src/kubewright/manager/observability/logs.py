"""Log formatting: a fixed message with structured fields, for terminals or as JSON.

    logger.info("started controller", extra={"controller": "shop", "workers": 1})

`setup("console")` prints `12:02:09.323 INFO    started controller controller=shop workers=1`, in colour on a
terminal. `setup("json")` prints one JSON object per line. Lines that are logged inside a reconcile get the
fields `controller`, `namespace`, `object` and `reconcile_id`, and those for a cluster of a fleet `cluster`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from traceback import format_exception_only
from typing import IO, Any, Literal

from kubewright.api.encoding.codec import encode
from kubewright.client.transport.headers import replace_surrogates
from kubewright.controller.controller import current_reconcile
from kubewright.controller.request import Request, current_cluster

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the structured fields of a record, with those of the current reconcile."""
    fields = {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD and value not in ("", None)
    }
    if cluster := current_cluster.get():
        fields.setdefault("cluster", cluster)
    current = current_reconcile.get()
    if current is not None:
        fields.setdefault("controller", current.controller)
        if isinstance(current.request, Request):
            if current.request.namespace:
                fields.setdefault("namespace", current.request.namespace)
            fields.setdefault("object", current.request.name)
        fields.setdefault("reconcile_id", current.id)
    return fields


class JSONFormatter(logging.Formatter):
    """One JSON object per line; the traceback of an exception is in `stacktrace`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in fields_of(record).items():
            line[name] = value if isinstance(value, str | int | float | bool | dict | list) else str(value)
        if record.exc_info and record.exc_info[0] is not None:
            if "error" not in line:
                line["error"] = "".join(format_exception_only(record.exc_info[0], record.exc_info[1])).strip()
            line["stacktrace"] = self.formatException(record.exc_info)
        try:
            return encode(line).decode()
        except (TypeError, ValueError, NotImplementedError, RecursionError):
            return encode({name: replace_surrogates(str(value)) for name, value in line.items()}).decode()


class ConsoleFormatter(logging.Formatter):
    """Time, level, message, and fields as `name=value`; a traceback follows on its own lines."""

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={_quote(value)}" for name, value in fields_of(record).items())
        text = f"{moment} {record.levelname:<7} {record.getMessage()}{fields}"
        if self._colours and record.levelname in _COLOURS:
            text = f"{_COLOURS[record.levelname]}{text}\x1b[0m"
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return text


def _quote(value: object) -> str:
    """Return a value as text, in quotes if it contains spaces or quotes.

    Line breaks and all other characters that are not printable are escaped, so that no value can begin
    another line or control a terminal.
    """
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    if not text.isprintable():
        quoted = json.dumps(text, ensure_ascii=False)
        return "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in quoted
        )
    if text and not any(character in text for character in ' "='):
        return text
    return encode(text).decode()


def setup(
    style: Literal["json", "console"] = "console", level: str | int = "INFO", stream: IO[str] | None = None
) -> None:
    """Configure the root logger to write to one stream (by default stderr) in one style."""
    target = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(target)
    if style == "json":
        handler.setFormatter(JSONFormatter())
    else:
        handler.setFormatter(ConsoleFormatter(colours=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
