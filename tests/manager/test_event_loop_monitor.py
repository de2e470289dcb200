"""Calls that block the event loop are found while they block it."""

import asyncio
import logging
import time

from prometheus_client import REGISTRY

from kubewright.manager import EventLoopMonitor


def _block(caplog):
    """Block like `time.sleep(6)`, until the monitor has reported it."""
    for _ in range(6000):
        if caplog.records:
            return
        time.sleep(0.01)


async def test_the_blocking_function_and_its_line_are_named(caplog):
    stop = asyncio.Event()
    with caplog.at_level(logging.WARNING, "kubewright.manager.observability.event_loop_monitor"):
        running = asyncio.create_task(EventLoopMonitor(interval=0.01).run(stop))
        await asyncio.sleep(0)
        _block(caplog)
        record = caplog.records[0]
        async with asyncio.timeout(60):
            while not _delays_above("0.1"):
                await asyncio.sleep(0.01)
        stop.set()
        await running

    assert record.message == "blocking call in the event loop"
    assert record.function == "_block"
    assert "test_event_loop_monitor.py:" in record.line
    assert "to_thread" in record.hint


def _delays_above(bound):
    """Return how many delays were longer than a bound."""
    name = "kubewright_event_loop_delay_seconds"
    total = REGISTRY.get_sample_value(f"{name}_count")
    return total and total - REGISTRY.get_sample_value(f"{name}_bucket", {"le": bound})
