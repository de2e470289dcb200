"""`FakeTimeLoop`."""

import asyncio
import threading

import pytest

from kubewright.testing.time import FakeTimeLoop, fake_time


def test_timers_run_in_order_without_waiting():
    async def scenario():
        order = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            order.append((seconds, asyncio.get_running_loop().time()))

        await asyncio.gather(*(sleeper(seconds) for seconds in (3600, 60, 1e6, 0.25)))
        return order

    assert fake_time(scenario()) == [(0.25, 0.25), (60, 60), (3600, 3600), (1e6, 1e6)]


def test_timeouts_use_the_loops_time():
    async def scenario():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert fake_time(scenario()) == 30


def test_time_does_not_advance_while_a_thread_runs():
    async def scenario():
        loop = asyncio.get_running_loop()
        release = threading.Event()

        async def later():
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            release.set()

        waiting = asyncio.create_task(asyncio.sleep(1000))
        _, during = await asyncio.gather(later(), asyncio.to_thread(lambda: (release.wait(), loop.time())[1]))
        assert not waiting.done()
        await waiting
        return during, loop.time()

    assert fake_time(scenario()) == (0, 1000)


def test_sockets_work_inside_one_loop():
    async def scenario():
        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            async with asyncio.timeout(3600):
                writer.write(b"hello\n")
                received = await reader.readline()
            writer.close()
        return received

    assert fake_time(scenario()) == b"hello\n"


def test_a_loop_for_fixtures():
    loop = FakeTimeLoop()
    try:
        loop.run_until_complete(asyncio.sleep(5))
        assert loop.time() == 5
    finally:
        loop.close()
