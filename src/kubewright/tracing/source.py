"""`SpanSource`: connects the components of a manager that publish spans with subscribers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from .spans import Span

logger = logging.getLogger(__name__)


class SpanSink(Protocol):
    """A subscriber. Both methods are called on the event loop, in the task or thread context of the work."""

    def start(self, span: Span) -> None:
        """Receive a span whose work starts."""

    def end(self, span: Span) -> None:
        """Receive a span whose work has ended."""


class SpanPublisher(Protocol):
    """A component that publishes spans."""

    sinks: tuple[SpanSink, ...]
    """The subscribers. While it is empty, no span is created."""


class SpanSource:
    """The publishing components of a manager."""

    def __init__(self) -> None:
        self._publishers: list[SpanPublisher] = []
        self._sinks: tuple[SpanSink, ...] = ()

    def add(self, publisher: SpanPublisher) -> None:
        """Add a component: it publishes to the current and to later subscribers."""
        if not any(each is publisher for each in self._publishers):
            self._publishers.append(publisher)
            publisher.sinks += tuple(each for each in self._sinks if each not in publisher.sinks)

    def remove(self, publisher: SpanPublisher) -> None:
        """Remove a component: it no longer publishes to the subscribers of this source."""
        self._publishers = [each for each in self._publishers if each is not publisher]
        publisher.sinks = tuple(each for each in publisher.sinks if each not in self._sinks)

    def subscribe(self, sink: SpanSink) -> Callable[[], None]:
        """Send the spans of all components to a sink; return the function that ends this."""
        self._sinks += (sink,)
        for publisher in self._publishers:
            if sink not in publisher.sinks:
                publisher.sinks += (sink,)

        def unsubscribe() -> None:
            self._sinks = tuple(each for each in self._sinks if each is not sink)
            for publisher in self._publishers:
                publisher.sinks = tuple(each for each in publisher.sinks if each is not sink)

        return unsubscribe


def start_span(sinks: tuple[SpanSink, ...], span: Span) -> None:
    """Report the start of a span; a failing subscriber does not affect the work."""
    for sink in sinks:
        try:
            sink.start(span)
        except Exception:
            logger.exception("span subscriber failed", extra={"sink": type(sink).__name__})


def end_span(sinks: tuple[SpanSink, ...], span: Span) -> None:
    """Report the end of a span to the subscribers that received its start, the last one first."""
    for sink in reversed(sinks):
        try:
            sink.end(span)
        except Exception:
            logger.exception("span subscriber failed", extra={"sink": type(sink).__name__})
    span.exception = None
    span.context = None
