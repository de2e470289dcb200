"""Paused processes (SIGSTOP) that lost their lease write nothing after they resume.

The writes and their order are read from the history of the storage.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.testing.server import TestServer, start_test_server

PROGRAM = Path(__file__).with_name("elected_writer.py")


@pytest.fixture
async def tls() -> AsyncIterator[tuple[TestServer, Path]]:
    async with start_test_server("tls", None, controllers=False) as server:
        await server.client().create(ConfigMap(metadata=ObjectMeta(name="diary", namespace="default")))
        yield server, server.plane.kubeconfig


class Writer:
    """A process of elected_writer.py."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def has_read_the_lease(self) -> None:
        """Wait until the process has read the Lease, and processed it, after this call."""
        now = time.monotonic()
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            for _ in range(2):  # the second read starts when the first one is processed
                while float(await self.process.stdout.readline() or "inf") < now:
                    pass

    async def pause(self) -> None:
        """Stop the process with SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.process.pid}/stat")
        async with asyncio.timeout(60):
            while stat.read_text().rpartition(")")[2].split()[0] != "T":
                await asyncio.sleep(0.01)

    async def exit_code(self) -> int:
        """Wait until the process has ended."""
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def writer(kubeconfig: Path, identity: str, later: Path) -> AsyncIterator[Writer]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), str(kubeconfig), identity, str(later)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Writer(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.communicate()


class History:
    """Return the lease holders and the writers, in the order of revisions."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.entries: list[tuple[int, str, str]] = []

    async def follow(self, kind: type[Any], word: str) -> None:
        async for event in self.client.watch(kind, namespace="default"):
            obj = event.object
            revision = int(obj.metadata.resource_version or 0)
            if isinstance(obj, Lease):
                self.entries.append((revision, word, (obj.spec and obj.spec.holder_identity) or ""))
            else:
                self.entries.append((revision, word, (obj.data or {}).get("writer", "")))

    def last(self, word: str) -> str:
        return next((who for _, what, who in reversed(self.entries) if what == word), "")

    async def until(self, word: str, who: str, running: Writer | None = None) -> None:
        """Wait until a given process holds the Lease or wrote last; the process has to run meanwhile."""
        async with asyncio.timeout(60):
            while self.last(word) != who:
                if running is not None and running.process.returncode is not None:
                    assert running.process.stderr is not None
                    raise AssertionError((await running.process.stderr.read()).decode())
                await asyncio.sleep(0.01)

    async def more(self, count: int) -> None:
        """Wait for this number of further entries."""
        seen = len(self.entries)
        async with asyncio.timeout(60):
            while len(self.entries) < seen + count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def followed(client: Client) -> AsyncIterator[History]:
    history = History(client)
    tasks = [
        asyncio.create_task(history.follow(Lease, "holds")),
        asyncio.create_task(history.follow(ConfigMap, "wrote")),
    ]
    try:
        yield history
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_paused_leader_writes_nothing_after_it_was_replaced(
    tls: tuple[TestServer, Path], tmp_path: Path
) -> None:
    server, kubeconfig = tls
    later = tmp_path / "later"
    async with (
        followed(server.client()) as history,
        writer(kubeconfig, "first", later) as first,
    ):
        await history.until("wrote", "first", first)
        async with writer(kubeconfig, "second", later) as second:
            await first.pause()
            await second.has_read_the_lease()
            later.touch()
            await history.until("wrote", "second", second)
            first.process.send_signal(signal.SIGCONT)
            assert await first.exit_code() != 0
            assert first.process.stderr is not None
            assert b"LeadershipLost" in await first.process.stderr.read()
            await history.more(5)
            entries = sorted(history.entries)
            taken = next(revision for revision, what, who in entries if (what, who) == ("holds", "second"))
            later_entries = {(what, who) for revision, what, who in entries if revision > taken}
            assert ("wrote", "second") in later_entries
            assert {who for _, who in later_entries} == {"second"}


async def test_short_pause_keeps_leadership(tls: tuple[TestServer, Path], tmp_path: Path) -> None:
    server, kubeconfig = tls
    async with (
        followed(server.client()) as history,
        writer(kubeconfig, "first", tmp_path / "later") as first,
    ):
        await history.until("wrote", "first", first)
        await first.pause()
        first.process.send_signal(signal.SIGCONT)
        await history.more(20)
        assert first.process.returncode is None


async def test_killed_leader_is_replaced_and_stopped_leader_immediately(
    tls: tuple[TestServer, Path], tmp_path: Path
) -> None:
    server, kubeconfig = tls
    later = tmp_path / "later"
    async with followed(server.client()) as history, writer(kubeconfig, "first", later) as first:
        await history.until("wrote", "first", first)
        async with writer(kubeconfig, "second", later) as second:
            first.process.kill()
            await first.exit_code()
            await second.has_read_the_lease()
            later.touch()
            await history.until("wrote", "second", second)
            second.process.terminate()
            assert await second.exit_code() == 0
            await history.until("holds", "")
