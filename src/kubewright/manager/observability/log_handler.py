"""`LazyLogHandler`: structured log lines on stderr, without the cost of a formatter before the first one."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


class LazyLogHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to stderr; the formatter is imported with the first line, to keep the start short."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.is_json = False

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        if self.formatter is None:
            from .logs import ConsoleFormatter, JSONFormatter

            self.formatter = (
                JSONFormatter() if self.is_json else ConsoleFormatter(colours=self.stream.isatty())
            )
        return self.formatter.format(record)


def log_to_stderr() -> None:
    """Write warnings and errors to stderr, with their fields, unless logging is configured already."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(LazyLogHandler())
