"""Paused processes (SIGSTOP) that lost their lease write nothing after they resume.

The writes and their order are read from the history of the storage.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
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


@asynccontextmanager
async def writer(kubeconfig: Path, identity: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(kubeconfig), identity],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await asyncio.to_thread(process.communicate)


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

    async def until(self, word: str, who: str, process: subprocess.Popen[bytes]) -> None:
        async with asyncio.timeout(30):
            while self.last(word) != who:
                assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
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


async def test_a_paused_leader_writes_nothing_after_it_was_replaced(tls: tuple[TestServer, Path]) -> None:
    server, kubeconfig = tls
    async with (
        followed(server.client()) as history,
        writer(kubeconfig, "first") as first,
    ):
        await history.until("wrote", "first", first)
        async with writer(kubeconfig, "second") as second:
            os.kill(first.pid, signal.SIGSTOP)
            await history.until("wrote", "second", second)
            os.kill(first.pid, signal.SIGCONT)
            assert await asyncio.to_thread(first.wait, 30) != 0
            assert first.stderr is not None
            assert b"LeadershipLost" in first.stderr.read()
            entries = sorted(history.entries)
            taken = next(revision for revision, what, who in entries if (what, who) == ("holds", "second"))
            later = {(what, who) for revision, what, who in entries if revision > taken}
            assert ("wrote", "second") in later
            assert {who for _, who in later} == {"second"}


async def test_short_pause_keeps_leadership(tls: tuple[TestServer, Path]) -> None:
    server, kubeconfig = tls
    async with followed(server.client()) as history, writer(kubeconfig, "first") as first:
        await history.until("wrote", "first", first)
        os.kill(first.pid, signal.SIGSTOP)
        os.kill(first.pid, signal.SIGCONT)
        seen = len(history.entries)
        async with asyncio.timeout(30):
            while len(history.entries) < seen + 20:
                await asyncio.sleep(0.01)
        assert first.poll() is None


async def test_killed_leader_is_replaced_and_stopped_leader_immediately(tls: tuple[TestServer, Path]) -> None:
    server, kubeconfig = tls
    async with followed(server.client()) as history, writer(kubeconfig, "first") as first:
        await history.until("wrote", "first", first)
        async with writer(kubeconfig, "second") as second:
            first.kill()
            await history.until("wrote", "second", second)
            second.terminate()
            assert await asyncio.to_thread(second.wait, 30) == 0
            assert history.last("holds") == ""
