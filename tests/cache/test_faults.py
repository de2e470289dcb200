"""The cache converges after stream faults, with backoff."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from kubewright.api.gvk import GroupVersionKind
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import ObjectChange, ObjectKey

THING = GroupVersionKind("example.com", "v1", "Thing")
NAMES = [f"thing-{index}" for index in range(12)]


class Watcher:
    """A handler that keeps its own picture from the changes alone, and checks that they fit together."""

    def __init__(self) -> None:
        self.picture: dict[ObjectKey, bytes] = {}
        self.misfits: list[ObjectChange] = []

    def __call__(self, change: ObjectChange) -> None:
        if self.picture.get(change.key) != (None if change.old is None else change.old.raw):
            self.misfits.append(change)
        if change.new is None:
            self.picture.pop(change.key, None)
        else:
            self.picture[change.key] = change.new.raw


def informer_of(server: Any, rng: random.Random, **options: Any) -> Informer:
    informer = Informer(THING, {"": server}, rng=rng, **options)
    for each in informer._feeds:
        each.reflector._page_size = 5
    return informer


def state_of(server: Any) -> dict[tuple[str, str], int]:
    return {key: int(obj["metadata"]["resourceVersion"]) for key, obj in server.objects.items()}


def store_of(informer: Informer) -> dict[tuple[str, str], int]:
    return {(key.namespace, key.name): entry.revision for key, entry in informer.store.entries()}


def trouble_of(informer: Informer) -> str:
    return str(informer.last_error or "")


def logged_by_caches(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of caches; others may be about tasks of earlier tests."""
    return [each for each in caplog.records if each.name.startswith("kubewright.cache")]


async def settled(informer: Informer, server: Any) -> None:
    """Wait until all changes have been delivered; a bookmark arrives every minute."""
    async with asyncio.timeout(1000):
        await informer.wait_for_sync()
        await informer.wait_for_revision(server.revision, namespace="ns")


async def one_run(server: Any, rng: random.Random, steps: int, *, lose: bool) -> None:
    informer, watcher = informer_of(server, rng, stream_initial_events=rng.random() < 0.7), Watcher()
    informer.add_handler(watcher)
    for name in rng.sample(NAMES, 6):
        server.write(name)
    informer.start()
    begun = asyncio.get_running_loop().time()
    try:
        for _ in range(steps):
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.01, 0.5, 3.0, 20.0)))
            happening = rng.random()
            existing = [key[1] for key in server.objects]
            if happening < 0.65 or not existing:
                server.write(rng.choice(NAMES))
            elif happening < 0.9:
                server.delete(rng.choice(existing))
            elif happening < 0.95:
                server.compact()
            else:
                # Only once: a new history that has reached our revision again cannot be distinguished from
                # the old one.
                server.restart(lose_everything=lose and server.revision > 100 and rng.random() < 0.3)
        server.faults.calm = True
        server.write("last")
        if lose:
            # Revisions start again from a lower number, so there is no revision to wait for.
            await asyncio.sleep(1000)
        await settled(informer, server)
    finally:
        await informer.stop()
    assert store_of(informer) == state_of(server)
    assert not watcher.misfits
    assert watcher.picture == {key: entry.raw for key, entry in informer.store.entries()}
    uids = {entry.uid for _, entry in informer.store.entries()}
    assert uids == {obj["metadata"]["uid"] for obj in server.objects.values()}
    elapsed = asyncio.get_running_loop().time() - begun
    # Each fault and each restart may cost a request or a few; without any, requests follow time.
    assert server.requests <= 20 + 6 * (server.faults.happened + server._epoch) + steps + elapsed / 2


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2])
def test_cache_converges_after_any_faults(
    rate: float, run_virtual: Any, scripted_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    logging.disable(logging.WARNING)
    try:
        for seed in range(700):
            rng = random.Random(seed)

            async def run(rng: random.Random = rng) -> None:
                server = scripted_server(rng, rate=rate, streams=rng.random() < 0.8)
                await one_run(server, rng, rng.randint(5, 25), lose=False)

            try:
                run_virtual(run())
            except BaseException as error:
                raise AssertionError(f"seed {seed}, rate {rate}: {error!r}") from error
    finally:
        logging.disable(logging.NOTSET)


def test_server_with_reset_history_is_listed_again(run_virtual: Any, scripted_server: Any) -> None:
    logging.disable(logging.WARNING)
    try:
        for seed in range(200):
            rng = random.Random(seed)

            async def run(rng: random.Random = rng) -> None:
                server = scripted_server(rng, rate=0.05)
                await one_run(server, rng, 20, lose=True)

            try:
                run_virtual(run())
            except BaseException as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
    finally:
        logging.disable(logging.NOTSET)


def test_initial_stream_closed_after_every_byte(run_virtual: Any, scripted_server: Any) -> None:
    """The first stream is cut after one byte, after two, and so on to its end."""
    logging.disable(logging.WARNING)

    async def run(cut: int) -> bool:
        rng = random.Random(cut)
        server = scripted_server(random.Random(1))
        for name in NAMES[:3]:
            server.write(name)
        server.cut_at = cut
        informer = informer_of(server, rng)
        informer.start()
        await asyncio.sleep(0.1)
        server.delete(NAMES[0])
        server.write(NAMES[1])
        await settled(informer, server)
        await informer.stop()
        assert store_of(informer) == state_of(server)
        return server.cut_at is None

    try:
        cut = 0
        while run_virtual(run(cut)):
            cut += 1
        assert cut > 800
    finally:
        logging.disable(logging.NOTSET)


async def requests_within(server: Any, informer: Informer, seconds: float) -> int:
    informer.start()
    await asyncio.sleep(seconds)
    await informer.stop()
    return int(server.requests)


def test_reflector_backs_off_after_429(
    run_virtual: Any, scripted_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> int:
        rng = random.Random(3)
        server = scripted_server(rng, rate=1.0)
        server._trouble = always(server, "429")
        return await requests_within(server, informer_of(server, rng), 600)

    with caplog.at_level(logging.INFO):
        assert run_virtual(run()) <= 40
    records = logged_by_caches(caplog)
    assert len([each for each in records if each.levelno >= logging.WARNING]) == 1
    assert any("slow down" in getattr(each, "error", "") for each in records)


def test_repeated_expiry_backs_off(run_virtual: Any, scripted_server: Any) -> None:
    async def run() -> int:
        rng = random.Random(3)
        server = scripted_server(rng)
        server._trouble = always(server, "410")
        return await requests_within(server, informer_of(server, rng), 600)

    assert run_virtual(run()) <= 45


def test_reflector_backs_off_when_watches_end_immediately(run_virtual: Any, scripted_server: Any) -> None:
    async def run() -> int:
        rng = random.Random(3)
        server = scripted_server(rng)

        async def nothing(*args: Any) -> Any:
            if args[1]:
                yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'  # noqa: E501

        server._lines = nothing
        return await requests_within(server, informer_of(server, rng), 600)

    assert run_virtual(run()) <= 40


def test_reflector_outage_is_logged_once(
    run_virtual: Any, scripted_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        rng = random.Random(5)
        server = scripted_server(rng)
        informer = informer_of(server, rng)
        informer.start()
        await informer.wait_for_sync()
        well, server._trouble = server._trouble, always(server, "500")
        server.restart()
        await asyncio.sleep(300)
        assert trouble_of(informer) == "broken"
        server._trouble = well
        await asyncio.sleep(100)
        assert trouble_of(informer) == ""
        await informer.stop()

    with caplog.at_level(logging.INFO, logger="kubewright.cache"):
        run_virtual(run())
    records = logged_by_caches(caplog)
    assert [each.levelname for each in records].count("INFO") == 1
    assert [each.levelname for each in records].count("WARNING") <= 2
    assert "recovered" in records[-1].message


def test_idle_connection_is_replaced(run_virtual: Any, scripted_server: Any) -> None:
    """A dead connection without an end: after two and a half minutes another one is made."""

    async def run() -> None:
        rng = random.Random(5)
        server = scripted_server(rng)
        informer = informer_of(server, rng)
        server.write("one")
        informer.start()
        await informer.wait_for_sync()
        server.faults.rate, server.faults.strikes = 1.0, lambda weight=1.0: weight == 0.2
        server.write("two")
        await asyncio.sleep(100)
        assert store_of(informer) != state_of(server)
        del server.faults.strikes
        server.faults.calm = True
        await settled(informer, server)
        assert store_of(informer) == state_of(server)
        await informer.stop()

    run_virtual(run())


def test_installed_kind_is_watched_after_backoff_or_retry_now(run_virtual: Any, scripted_server: Any) -> None:
    async def run() -> None:
        rng = random.Random(5)
        server = scripted_server(rng)
        well, server._trouble = server._trouble, always(server, "404")
        informer = informer_of(server, rng)
        informer.start()
        await asyncio.sleep(120)
        assert 10 <= server.requests <= 25
        assert trouble_of(informer) == "the server could not find the requested resource"
        server._trouble = well
        informer.retry_now()
        await asyncio.sleep(0.01)
        assert informer.has_synced
        await informer.stop()

    run_virtual(run())


def test_server_without_initial_events_is_listed(run_virtual: Any, scripted_server: Any) -> None:
    async def run() -> None:
        rng = random.Random(5)
        server = scripted_server(rng)
        for name in NAMES:
            server.write(name)
        streamed = server._lines

        async def ignoring(resource_version: str, initial_events: bool, timeout_seconds: int) -> Any:
            async for line in streamed(resource_version or "100", False, timeout_seconds):
                yield line

        server._lines = ignoring
        informer = informer_of(server, rng)
        informer.start()
        async with asyncio.timeout(30):
            await informer.wait_for_sync()
        assert store_of(informer) == state_of(server)
        await informer.stop()

    run_virtual(run())


def always(server: Any, code: str) -> Any:
    from kubewright.api.errors import Expired, InternalError, NotFound, too_many_requests

    async def trouble() -> None:
        server._asked()
        raise {
            "404": NotFound("the server could not find the requested resource"),
            "410": Expired("too old resource version"),
            "429": too_many_requests("slow down", 1),
            "500": InternalError("broken"),
        }[code]

    return trouble


def test_informer_is_current_only_while_its_watch_is_open(run_virtual: Any, scripted_server: Any) -> None:
    async def run() -> None:
        server = scripted_server(random.Random(1))
        informer = informer_of(server, random.Random(1))
        assert not informer.is_current
        informer.start()
        await informer.wait_until_current()
        server.faults.rate = 1.0  # every request fails from now on
        server.restart()
        await asyncio.sleep(1)
        assert informer.has_synced
        assert not informer.is_current
        server.write("during")
        revision = server.revision
        waiting = asyncio.ensure_future(informer.wait_for_revision(revision))
        await asyncio.sleep(30)
        assert not waiting.done()
        assert informer.get("during", namespace="ns") is None
        server.faults.calm = True
        await waiting
        assert informer.get("during", namespace="ns") is not None
        await informer.wait_until_current()
        assert informer.is_current
        assert informer.is_fresh
        await informer.stop()
        assert not informer.is_current

    logging.disable(logging.WARNING)
    try:
        run_virtual(run())
    finally:
        logging.disable(logging.NOTSET)
