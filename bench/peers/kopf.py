"""kopf: an event handler for a kind; synced when it was called for every object."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

import kopf

EXPECTED = int(os.environ["EXPECT"])
held: dict[tuple[str, str], Any] = {}
in_sync = False
logging.disable(logging.CRITICAL)


@kopf.on.event("bench.example.dev", "v1", "widgets")
async def seen(body: Any, namespace: str, name: str, **_: Any) -> None:
    """Store the object; report the sync, and each later change."""
    global in_sync
    before, held[namespace, name] = held.get((namespace, name)), body
    if not in_sync and len(held) >= EXPECTED:
        in_sync = True
        print("synced", len(held), time.monotonic(), flush=True)
    sequence = body["spec"].get("seq")
    if in_sync and sequence and before is not None and before["spec"].get("seq") != sequence:
        print("seen", sequence, time.monotonic(), flush=True)


kopf.run(clusterwide=True, standalone=True)
