"""What a ring of the last minutes costs an operator: CPU of its process, with and without the ring.

The operator creates a ConfigMap and sets the status of each of a thousand Widgets, which are created while it
runs. Rounds with and without the ring alternate; the best ones are compared, because other load on the
machine only adds time. A ring costs nothing else until it is written; the time to write it is printed, too.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench import Benchmark
from bench.cache import server
from bench.controller import OBJECTS, loop
from kubewright.recording import RecordedChange, Recording, Redactor, write_recording

ROUNDS = int(os.environ.get("BENCH_RECORDING_ROUNDS", "5"))
LIMIT = 1.03
VARIABLE = "KUBEWRIGHT_RECORDING_MINUTES"


async def compare(kubeconfig: str) -> None:
    """Print the cost of both."""
    costs: dict[str, list[float]] = {"": [], "10": []}
    memory: dict[str, float] = {}
    for _ in range(ROUNDS):
        for minutes, found in costs.items():
            os.environ[VARIABLE] = minutes or "0"
            try:
                cost = await loop("recorded", kubeconfig, backlog=False)
            finally:
                del os.environ[VARIABLE]
            found.append(cost.cpu)
            memory[minutes] = cost.rss
    without, with_ring = min(costs[""]), min(costs["10"])
    ratio = with_ring / without
    print(f"recording: an operator with {OBJECTS:,} objects, {ROUNDS} alternating rounds, best CPU")
    print(f"  without a ring {without:>6.2f} s {memory['']:>7.1f} MiB RSS")
    print(
        f"  with a ring    {with_ring:>6.2f} s {memory['10']:>7.1f} MiB RSS, {ratio:.3f}x "
        f"(limit {LIMIT}){'' if ratio <= LIMIT else '  over'}",
        flush=True,
    )


def write_changes() -> float:
    """CPU seconds to redact and write a thousand changes."""
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "a", "env": [{"name": "A", "value": "secret"}]}]},
    }
    changes = [RecordedChange(at=number / 10, type="MODIFIED", object=obj) for number in range(1000)]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        write_recording(Recording(changes=changes), Path(folder) / "a", redactor=Redactor())
        return time.process_time() - begun


def benchmarks() -> list[Benchmark]:
    """Print the comparison; return the benchmarks in memory."""
    with server() as kubeconfig:
        asyncio.run(compare(kubeconfig))
    return [
        Benchmark(
            name="redact and write a change",
            run=write_changes,
            operations=1000,
            self_timed=True,
            target_us=100,
        )
    ]
