"""Log lines for people or for machines, each with the object it is about.

`setup("json")` writes one JSON object per line with the fields of the call (`controller`, `namespace`,
`object`, `reconcile_id`, ...); `setup("console")` writes aligned text, in colour on a terminal.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import IO, Any, Literal

from kubewright.api.codec import encode
from kubewright.controller.controller import current_reconcile
from kubewright.controller.request import Request

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was said beside the message."""
    fields = {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD and value not in ("", None)
    }
    current = current_reconcile.get()
    if current is not None:
        fields.setdefault("controller", current.controller)
        fields.setdefault("reconcile_id", current.id)
        if isinstance(current.request, Request):
            fields.setdefault("object", current.request.name)
            if current.request.namespace:
                fields.setdefault("namespace", current.request.namespace)
    return fields


class JSONFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Print a record."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in fields_of(record).items():
            line[name] = value if isinstance(value, str | int | float | bool | dict | list) else str(value)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        try:
            return encode(line).decode()
        except (TypeError, NotImplementedError):
            return encode({name: str(value) for name, value in line.items()}).decode()


class ConsoleFormatter(logging.Formatter):
    """Aligned text."""

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Print a record."""
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = fields_of(record)
        fields.setdefault("kind", fields.get("controller", ""))
        where = "/".join(str(fields[name]) for name in ("namespace", "object") if name in fields)
        # A line about a request as such names it already.
        subject = "" if "request" in fields else f"{fields.get('kind', '')} {where}".strip()
        text = f"{moment} {record.levelname:<7} {subject + ': ' if subject else ''}{record.getMessage()}"
        if self._colours and record.levelname in _COLOURS:
            text = f"{_COLOURS[record.levelname]}{text}\x1b[0m"
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return text


def setup(
    style: Literal["json", "console"] = "console", level: str | int = "INFO", stream: IO[str] | None = None
) -> None:
    """Send every log line of the process to one place in one form."""
    target = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(target)
    if style == "json":
        handler.setFormatter(JSONFormatter())
    else:
        handler.setFormatter(ConsoleFormatter(colours=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
