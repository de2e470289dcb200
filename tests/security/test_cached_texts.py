"""What the server caches by texts of clients takes a bounded number of bytes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kubewright.api.selectors.field_selectors import parse_field_selector
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.apiserver.encoding.cbor import _accept_json
from kubewright.apiserver.encoding.negotiation import parse_accept
from kubewright.testing.server import start_test_server

MEBIBYTE = 1024 * 1024


def retained(call: Callable[[int], Any], times: int) -> int:
    """Return the bytes that calls with different numbers have left behind."""
    call(0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, times):
            call(number)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (parse_accept, lambda number: f"a/{number}," * 2000),
        (_accept_json, lambda number: f"a/{number}," * 2000),
        (parse_selector, lambda number: ",".join(f"key{each}=v{number}" for each in range(1000))),
        (parse_field_selector, lambda number: ",".join(f"key{each}=v{number}" for each in range(1000))),
    ],
)
def test_long_texts_are_not_cached(function: Callable[[str], Any], text: Callable[[int], str]) -> None:
    assert retained(lambda number: function(text(number)), 10) < MEBIBYTE // 4


async def test_long_paths_are_not_cached() -> None:
    async with start_test_server("in-process") as server:

        async def request(number: int) -> None:
            path = f"/{number}" + "a" * MEBIBYTE
            assert (await server.transport.send("GET", path)).status == 404

        await request(0)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(1, 20):
                await request(number)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < 4 * MEBIBYTE
        finally:
            tracemalloc.stop()
