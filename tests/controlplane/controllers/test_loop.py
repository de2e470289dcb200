"""The queue under the controllers."""

from __future__ import annotations

import asyncio

from kubewright.controlplane.controllers import Loop


async def test_a_key_that_waits_is_dealt_with_once() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)

    loop = Loop("test", work)
    for key in ("a", "b", "a", "a"):
        loop.add(key)
    loop.start()
    await loop.idle()
    assert seen == ["a", "b"]
    await loop.stop()


async def test_a_key_that_is_added_while_it_is_dealt_with_comes_again() -> None:
    seen: list[str] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work(key: str) -> None:
        seen.append(key)
        started.set()
        await go_on.wait()

    loop = Loop("test", work, workers=3)
    loop.start()
    loop.add("a")
    await started.wait()
    loop.add("a")
    loop.add("a")
    assert seen == ["a"]
    go_on.set()
    await loop.idle()
    assert seen == ["a", "a"]
    await loop.stop()


async def test_what_fails_comes_back() -> None:
    attempts = 0
    done = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise ValueError("not yet")
        done.set()

    loop = Loop("test", work)
    loop.start()
    loop.add("a")
    await done.wait()
    assert attempts == 4
    await loop.stop()


async def test_nothing_is_left_lying_when_a_worker_has_just_finished() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)

    loop = Loop("test", work)
    loop.start()
    loop.add("a")
    while not seen:
        await asyncio.sleep(0)
    loop.add("b")
    await asyncio.wait_for(loop.idle(), 5)
    assert seen == ["a", "b"]
    await loop.stop()
