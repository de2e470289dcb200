"""One clock: what the standard library returns inside and outside of a loop with a simulated clock."""

from __future__ import annotations

import ast
import asyncio
import datetime
import logging
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, timedelta
from datetime import datetime as imported_datetime
from pathlib import Path
from time import time as imported_time
from typing import Any

import pytest

import kubewright
from kubewright.api import now
from kubewright.client.rest.rate_limit import TokenBucket
from kubewright.controller import BucketRateLimiter
from kubewright.testing.time import FakeTimeLoop, fake_time
from kubewright.tls.certificates import CertificateAuthority, server_context

START = imported_datetime(2030, 1, 1, tzinfo=UTC)
DAY = 86400.0
captured_method = imported_datetime.now


def captured_default(clock: Callable[[], float] = time.time) -> float:
    return clock()


DATES: dict[str, Callable[[], datetime.datetime]] = {
    "now()": now,
    "datetime.now(UTC)": lambda: imported_datetime.now(UTC),
    "datetime.now()": lambda: datetime.datetime.now().astimezone(),
    "datetime.today": lambda: imported_datetime.today().astimezone(),
    "datetime.utcnow": lambda: imported_datetime.utcnow().replace(tzinfo=UTC),
    "date.today": lambda: imported_datetime.combine(datetime.date.today(), datetime.time()).astimezone(),
    "captured datetime.now": lambda: captured_method(UTC),
    **{
        name: lambda seconds=seconds: imported_datetime.fromtimestamp(seconds(), UTC)  # type: ignore[misc]
        for name, seconds in {
            "time.time": lambda: time.time(),
            "time.time_ns": lambda: time.time_ns() / 1e9,
            "from time import time": lambda: imported_time(),
            "captured time.time": captured_default,
            "time.localtime": lambda: time.mktime(time.localtime()),
            "time.gmtime": lambda: time.mktime(time.gmtime()) - time.timezone,
            "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
            "time.ctime": lambda: time.mktime(time.strptime(time.ctime())),
            "time.asctime": lambda: time.mktime(time.strptime(time.asctime())),
            "time.strftime": lambda: float(time.strftime("%s")),
            "log record": lambda: logging.makeLogRecord({}).created,
        }.items()
    },
}
MONOTONIC: dict[str, Callable[[], float]] = {
    "time.monotonic": lambda: time.monotonic(),
    "time.monotonic_ns": lambda: time.monotonic_ns() / 1e9,
    "time.perf_counter": lambda: time.perf_counter(),
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
}


def is_real(date: datetime.datetime) -> bool:
    return abs(date - imported_datetime.now(UTC)) < timedelta(days=2)


@pytest.mark.parametrize("name", DATES)
def test_dates_follow_the_loop(name: str) -> None:
    """To the day for `date.today`, to the second for the others."""

    async def scenario() -> list[datetime.datetime]:
        found = [DATES[name]()]
        await asyncio.sleep(400 * DAY)
        return [*found, DATES[name]()]

    first, last = fake_time(scenario(), start=START + timedelta(hours=12))
    precision = timedelta(days=1) if name == "date.today" else timedelta(seconds=1)
    assert abs(first - START - timedelta(hours=12)) < precision
    assert abs(last - START - timedelta(days=400, hours=12)) < precision
    assert is_real(DATES[name]())


@pytest.mark.parametrize("name", MONOTONIC)
def test_other_clocks_are_the_time_of_the_loop(name: str) -> None:
    async def scenario() -> tuple[float, float]:
        await asyncio.sleep(1234.5)
        return MONOTONIC[name](), asyncio.get_running_loop().time()

    assert fake_time(scenario()) == (1234.5, 1234.5)
    before = MONOTONIC[name]()
    time.sleep(0.001)
    assert MONOTONIC[name]() > before


def test_cpu_time_is_real() -> None:
    async def scenario() -> tuple[float, float]:
        before = time.process_time()
        await asyncio.sleep(DAY)
        sum(range(100_000))
        return before, time.process_time()

    before, after = fake_time(scenario())
    assert before < after < before + DAY


def test_the_start_is_the_current_date_to_the_second() -> None:
    before = int(time.time())
    found = fake_time(_wall_time())
    assert before <= found <= time.time()
    assert found == int(found)


def test_a_start_without_a_time_zone_is_an_error() -> None:
    with pytest.raises(ValueError, match="requires a time zone"):
        FakeTimeLoop(start=datetime.datetime(2030, 1, 1))


async def _wall_time() -> float:
    return time.time()


def test_code_between_two_runs_of_a_loop_sees_real_time() -> None:
    with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(start=START)) as runner:
        runner.run(asyncio.sleep(DAY))
        assert is_real(now())
        assert runner.run(_wall_time()) == START.timestamp() + DAY
    assert is_real(now())


def test_the_functions_are_restored() -> None:
    originals = (time.time, time.sleep, time.monotonic, threading.Thread.start, ssl.SSLContext.wrap_bio)
    methods = (vars(imported_datetime)["now"], vars(datetime.date)["today"])

    async def scenario() -> bool:
        return time.time in originals

    assert not fake_time(scenario())
    with pytest.raises(ZeroDivisionError):
        fake_time(_fail())
    assert originals == (
        time.time,
        time.sleep,
        time.monotonic,
        threading.Thread.start,
        ssl.SSLContext.wrap_bio,
    )
    assert methods == (vars(imported_datetime)["now"], vars(datetime.date)["today"])


async def _fail() -> None:
    raise ZeroDivisionError


def test_a_function_that_a_test_has_replaced_stays_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    assert fake_time(_wall_time()) == 5.0
    assert time.time() == 5.0

    async def scenario() -> float:
        monkeypatch.setattr(time, "time", lambda: 6.0)
        return time.time()

    assert fake_time(scenario()) == 6.0
    assert time.time() == 6.0


def test_loops_in_two_threads_have_their_own_clocks() -> None:
    barrier = threading.Barrier(3)
    found: dict[int, list[float]] = {}

    async def scenario(days: int) -> None:
        barrier.wait()
        await asyncio.sleep(days * DAY)
        barrier.wait()
        found[days] = [time.time(), time.monotonic()]
        barrier.wait()

    def run(days: int) -> None:
        fake_time(scenario(days), start=START)

    threads = [threading.Thread(target=run, args=(days,)) for days in (1, 50)]
    for thread in threads:
        thread.start()
    barrier.wait()
    barrier.wait()
    assert is_real(now())  # this thread has no simulated clock
    barrier.wait()
    for thread in threads:
        thread.join()
    assert found == {days: [START.timestamp() + days * DAY, days * DAY] for days in (1, 50)}
    assert is_real(now())


def test_a_real_loop_in_a_thread_has_the_real_clock() -> None:
    async def inner() -> bool:
        await asyncio.sleep(0.001)
        return is_real_now()

    def is_real_now() -> bool:
        return time.time() < START.timestamp()

    async def scenario() -> bool:
        return await asyncio.to_thread(asyncio.run, inner())

    assert fake_time(scenario(), start=START + timedelta(days=36500))


@pytest.mark.parametrize("pool", [False, True])
def test_calls_in_threads_see_the_clock_of_their_loop(pool: bool) -> None:
    """Also in a pool whose threads an earlier loop has started."""
    with ThreadPoolExecutor(1) as executor:

        async def scenario() -> float:
            await asyncio.sleep(DAY)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(executor if pool else None, lambda: time.time())

        for years in (1, 2):
            start = START + timedelta(days=365 * years)
            assert fake_time(scenario(), start=start) == start.timestamp() + DAY
        assert executor.submit(is_real_in_thread).result()


def is_real_in_thread() -> bool:
    return is_real(now())


def test_threads_inherit_the_clock_of_the_loop_that_started_them() -> None:
    found: list[float] = []

    async def scenario() -> None:
        await asyncio.sleep(DAY)
        thread = threading.Thread(target=lambda: found.append(time.time()))
        thread.start()
        thread.join()

    fake_time(scenario(), start=START)
    assert found == [START.timestamp() + DAY]


def test_processes_have_the_real_clock() -> None:
    async def scenario() -> bool:
        with ProcessPoolExecutor(1) as executor:
            return await asyncio.get_running_loop().run_in_executor(executor, is_real_in_thread)

    assert fake_time(scenario(), start=START + timedelta(days=36500))


def test_sleep_in_the_loop_advances_the_clock() -> None:
    async def scenario() -> list[float]:
        order: list[float] = []
        timer = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        time.sleep(3600)
        order.append(time.monotonic())
        await timer
        return [*order, time.monotonic()]

    assert fake_time(scenario()) == [3600, 3600]


def test_sleep_in_a_thread_lets_the_loop_run() -> None:
    """Two calls and the loop sleep in the right order, and wait for no real time."""

    async def scenario() -> list[tuple[str, float]]:
        order: list[tuple[str, float]] = []

        def call(name: str, seconds: float) -> None:
            for _ in range(2):
                time.sleep(seconds)
                order.append((name, time.monotonic()))

        async def task() -> None:
            await asyncio.sleep(2500)
            order.append(("loop", time.monotonic()))

        await asyncio.gather(asyncio.to_thread(call, "a", 1000), asyncio.to_thread(call, "b", 1800), task())
        return order

    assert fake_time(scenario()) == [("a", 1000), ("b", 1800), ("a", 2000), ("loop", 2500), ("b", 3600)]


def test_a_thread_that_the_loop_waits_for_can_sleep() -> None:
    """A loop of sleeps until a deadline ends, although the event loop does not run."""
    found: list[float] = []

    def poll() -> None:
        deadline = time.monotonic() + 0.05
        while time.monotonic() < deadline:
            time.sleep(0.02)
        found.append(time.monotonic())

    async def scenario() -> None:
        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()

    fake_time(scenario())
    assert found == [pytest.approx(0.06)]


# Certificates


def test_certificates_are_verified_at_the_simulated_date() -> None:
    """Also if they are not valid yet, or not any more, for the real clock that OpenSSL has."""

    async def scenario() -> list[str]:
        authority = CertificateAuthority.create(days=3650)
        results: list[str] = []
        for day in range(0, 800, 100):
            if day % 400 == 0:
                context = server_context(authority.issue("localhost", hosts=["localhost"], server=True))
                server = await asyncio.start_server(_hello, "127.0.0.1", 0, ssl=context)
            results.append(await _connect(server, authority))
            assert await asyncio.to_thread(_connect_blocking, server, authority) == results[-1]
            await asyncio.sleep(100 * DAY)
        server.close()
        return results

    for start in (imported_datetime.now(UTC), START, START - timedelta(days=7300)):
        assert fake_time(scenario(), start=start) == ["hello"] * 8


def test_expired_certificates_fail_the_handshake() -> None:
    async def scenario() -> list[str]:
        authority = CertificateAuthority.create(days=100)
        issue = authority.issue
        contexts = [
            server_context(issue("localhost", hosts=["localhost"], server=True, days=n)) for n in (10, 365)
        ]
        servers = [await asyncio.start_server(_hello, "127.0.0.1", 0, ssl=each) for each in contexts]
        results = []
        for day in (0, 11, 110):
            await asyncio.sleep(day * DAY - time.monotonic())
            for server in servers:
                results.append(await _connect(server, authority))
                assert await asyncio.to_thread(_connect_blocking, server, authority) == results[-1]
        return results

    def error(results: list[str]) -> list[str]:
        return ["expired" if "certificate has expired (simulated clock" in each else each for each in results]

    # After 110 days the certificate of the authority has expired, and with it all that it has issued.
    assert error(fake_time(scenario())) == ["hello", "hello", "expired", "hello", "expired", "expired"]


def test_contexts_verify_dates_again_after_the_loop() -> None:
    context = ssl.create_default_context()
    flags = context.verify_flags

    async def scenario() -> None:
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")

    fake_time(scenario())
    assert context.verify_flags == flags


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await writer.drain()
    writer.close()


async def _connect(server: asyncio.Server, authority: CertificateAuthority) -> str:
    port = server.sockets[0].getsockname()[1]
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
    except ssl.SSLCertVerificationError as error:
        return str(error)
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def _connect_blocking(server: asyncio.Server, authority: CertificateAuthority) -> str:
    import socket

    port = server.sockets[0].getsockname()[1]
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                return connection.recv(100).decode()
        except ssl.SSLCertVerificationError as error:
            return str(error)


# Code that was imported or created before


@pytest.mark.parametrize("limiter", [BucketRateLimiter(1.0, 1), TokenBucket(1.0, 1)])
def test_objects_that_were_created_outside_follow_the_clock(limiter: Any) -> None:
    async def scenario() -> list[float]:
        delays = []
        for _ in range(3):
            delay = limiter.when("a") if isinstance(limiter, BucketRateLimiter) else await limiter.acquire()
            delays.append(delay)
            await asyncio.sleep(100)
        return delays

    assert fake_time(scenario()) == [0, 0, 0]


def test_no_object_of_the_package_keeps_a_clock_of_the_standard_library() -> None:
    """A reference in an object (`self._clock = clock` with `clock=time.monotonic`) cannot be replaced.

    `captured_references` replaces default values, but not what objects got from them earlier.
    """
    found = []
    package = Path(kubewright.__file__).parent
    names = {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "sleep",
        "now",
        "utcnow",
        "today",
    }
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "testing") or path.is_relative_to(package / "explore"):
            continue
        tree = ast.parse(path.read_text())
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in names and id(node) not in called:
                owner = ast.unparse(node.value)
                if owner in ("time", "datetime", "datetime.datetime", "date", "datetime.date"):
                    found.append(f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node)}")
    assert [each for each in found if not each.endswith(": datetime.time")] == []


def test_patched_calls_are_cheap() -> None:
    """CPU per call, as a ratio to the original within one run: the clock is read in every request."""

    def cost(call: Callable[[], Any]) -> float:
        return min(_cpu(call) for _ in range(5))

    async def scenario() -> float:
        return cost(lambda: imported_datetime.now(UTC))

    assert fake_time(scenario()) < 100 * cost(lambda: imported_datetime.now(UTC))


def _cpu(call: Callable[[], Any]) -> float:
    before = time.thread_time()
    for _ in range(10_000):
        call()
    return time.thread_time() - before
