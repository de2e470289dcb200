"""Release of unused memory to the operating system."""

from __future__ import annotations

import asyncio
import sys

import pytest

from kubewright.cli.operators import memory as trimming


async def test_memory_is_released_only_after_work(monkeypatch: pytest.MonkeyPatch) -> None:
    done, given = 0, 0

    def trim(pad: int) -> int:
        nonlocal given
        given += 1
        return 1

    monkeypatch.setattr(trimming, "find_malloc_trim", lambda: trim)
    upkeep = asyncio.create_task(trimming.trim_periodically(lambda: done, interval=0.001))
    await asyncio.sleep(0.02)
    assert given == 0
    for _ in range(2):
        done += 1
        before = given
        async with asyncio.timeout(60):
            while given == before:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert given == before + 1
    upkeep.cancel()


async def test_missing_malloc_trim_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "find_malloc_trim", lambda: None)
    numbers = iter(range(100))
    async with asyncio.timeout(60):
        await trimming.trim_periodically(lambda: next(numbers), interval=0.001)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only GNU's C library is known to have it")
def test_malloc_trim_is_callable() -> None:
    trim = trimming.find_malloc_trim()
    if trim is None:
        pytest.skip("this C library has no malloc_trim")
    assert trim(0) in (0, 1)
