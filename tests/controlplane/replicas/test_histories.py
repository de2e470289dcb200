"""Three replicas are linearizable, and their watches complete, while replicas and etcd members fail.

`KUBEWRIGHT_HISTORIES=1000 pytest -s tests/controlplane/replicas/test_histories.py` is the long run;
`KUBEWRIGHT_SEED` repeats the choices of another run, and `KUBEWRIGHT_STORE=postgresql` uses another store.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from kubewright.storage import open_storage

from .cluster import Cluster
from .faults import FaultInjector
from .histories import History, StoredEvents

HISTORIES = int(os.environ.get("KUBEWRIGHT_HISTORIES", "5"))
SEED = int(os.environ.get("KUBEWRIGHT_SEED", "0")) or random.randrange(1, 2**32)
STORE = os.environ.get("KUBEWRIGHT_STORE", "etcd")
PARALLEL = int(os.environ.get("KUBEWRIGHT_PARALLEL", "2"))
HISTORY_TIMEOUT = 600
"""Seconds after which a history fails, instead of waiting without an end."""


async def test_histories_with_faults_are_linearizable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    enough, stop = asyncio.Event(), asyncio.Event()
    begun = time.monotonic()
    async with (
        Cluster(tmp_path, store=STORE, options=("--no-controllers", "--nodes", "0", "--quiet")) as cluster,
        open_storage(cluster.store("compact_every=0")) as storage,
    ):
        stored_events = StoredEvents(storage)
        following = asyncio.create_task(stored_events.run(await storage.revision()))
        faults = FaultInjector(cluster, rng)

        async def run_histories(worker: int) -> None:
            number = 0
            while not stop.is_set() and not problems:
                name = f"h{worker}x{number}"
                history = History(name, cluster, stored_events, random.Random(f"{SEED} {name}"), pause=0.15)
                try:
                    async with asyncio.timeout(HISTORY_TIMEOUT):
                        await history.run()
                except TimeoutError:
                    history.problems.append(f"{name} waits for its {history.step}")
                counts.update(history.counts)
                counts["histories"] += 1
                problems.extend(history.problems)
                if counts["histories"] >= HISTORIES or problems:
                    enough.set()
                if counts["histories"] % 100 == 0:
                    with capsys.disabled():
                        print(f"\n{_report(counts, faults, begun, len(problems))}", flush=True)
                number += 1

        workers = [asyncio.create_task(run_histories(worker)) for worker in range(PARALLEL)]
        try:
            injecting = asyncio.create_task(faults.run(enough))
            await asyncio.wait([injecting, following, *workers], return_when=asyncio.FIRST_COMPLETED)
            enough.set()
            stop.set()
            assert not following.done(), f"the watch on the store has ended: {following}"
            await asyncio.gather(injecting, *workers)
        finally:
            for task in (injecting, following, *workers):
                task.cancel()
            await asyncio.gather(injecting, following, *workers, return_exceptions=True)
    print(_report(counts, faults, begun, len(problems)))
    assert not problems, f"seed {SEED}\n" + "\n".join(problems)
    assert counts["histories"] >= HISTORIES
    assert set(faults.counts) == set(faults.faults)


def _report(counts: Counter[str], faults: FaultInjector, begun: float, violations: int) -> str:
    lines = [f"seed {SEED}, {time.monotonic() - begun:.0f} s, {violations} violations"]
    lines += [f"  {count:>8,} {name}" for name, count in sorted(counts.items())]
    lines += [f"  {count:>8,} x {name}" for name, count in sorted(faults.counts.items())]
    return "\n".join(lines)
