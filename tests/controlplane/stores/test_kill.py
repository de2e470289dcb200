"""`kubewright up` on SQLite, killed during writes: acknowledged writes are durable, revisions increase."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client, ConnectionFailed, RetryPolicy

WRITERS = 16
KILLS = int(os.environ.get("KUBEWRIGHT_KILLS", "5"))
"""Number of kills; set it higher for a long manual run."""


class Ledger:
    """The writes that the server has acknowledged."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.under_way: set[str] = set()
        self.deleted: set[str] = set()
        self.revisions: set[int] = set()

    def note(self, name: str, obj: ConfigMap) -> None:
        """Record an acknowledged write."""
        version = obj.metadata.resource_version
        assert version is not None
        assert int(version) not in self.revisions, "a revision was used twice"
        self.revisions.add(int(version))
        self.objects[name] = version
        self.under_way.discard(name)

    async def check(self, client: Client) -> None:
        """Check that acknowledged objects exist, unchanged unless a later write was in flight."""
        found = {each.metadata.name: each async for each in client.list(ConfigMap, namespace="default")}
        for name, version in self.objects.items():
            if name in self.under_way:
                kept = found.get(name)
                assert kept is None or int(kept.metadata.resource_version) >= int(version)
            else:
                assert found[name].metadata.resource_version == version, (
                    f"{name} differs from the acknowledged object"
                )
        assert not self.deleted & set(found), "deleted objects exist again"
        for name in self.under_way:
            self.objects.pop(name, None)
        self.under_way.clear()


async def write(client: Client, ledger: Ledger, run: int, writer: int) -> None:
    """Create, update and delete until the connection fails."""
    for number in range(1_000_000):
        name = f"run-{run}-{writer}-{number}"
        obj = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"text": "x" * 500})
        obj = await client.create(obj)
        ledger.note(name, obj)
        if number % 2:
            ledger.under_way.add(name)
            obj.data = {"text": "y" * 700}
            obj = await client.update(obj)
            ledger.note(name, obj)
        if number % 5 == 4:
            ledger.under_way.add(name)
            await client.delete(obj)
            ledger.under_way.discard(name)
            del ledger.objects[name]
            ledger.deleted.add(name)


async def kill_and_check(folder: Path, start: Callable[..., Any], times: int, seed: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger()
    store = f"sqlite:{folder / 'state.db'}"
    for run in range(times + 1):
        up = start(folder, "--store", store, "--no-controllers", "--quiet")
        async with Client.connect(
            up.kubeconfig, metrics=False, retries=RetryPolicy(transient_attempts=0)
        ) as client:
            await ledger.check(client)
            if run == times:
                break
            wanted = len(ledger.revisions) + chance.randrange(20, 300)
            highest = max(ledger.revisions, default=0)
            burst = [asyncio.create_task(write(client, ledger, run, each)) for each in range(WRITERS)]
            while len(ledger.revisions) < wanted and not any(each.done() for each in burst):
                await asyncio.sleep(0.001)
            up.process.send_signal(signal.SIGKILL)
            for each in burst:
                with contextlib.suppress(ConnectionFailed):
                    await each
            up.process.wait()
            assert len(ledger.revisions) >= wanted
            assert max(ledger.revisions) > highest
    up.stop()


async def test_no_acknowledged_write_is_lost(tmp_path: Path, start: Callable[..., Any]) -> None:
    await kill_and_check(tmp_path, start, KILLS, seed=KILLS)
