"""A process that writes continuously and prints acknowledged writes, until it is killed.

Every line is `create|update|delete KEY REVISION`. The first is `start REVISION`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from kubewright.storage import History, SQLiteStorage


async def main(path: str, run: str) -> None:
    # A short history, so that compaction runs most of the time.
    history = History(seconds=0.0, min_events=20, max_events=60)
    async with SQLiteStorage(path, history=history) as store:
        os.write(1, f"start {await store.revision()}\n".encode())

        async def writer(name: int) -> None:
            number = 0
            while True:
                key = f"/burst/{run}/{name}/{number}"
                revision = await store.create(key, key.encode())
                os.write(1, f"create {key} {revision}\n".encode())
                revision = await store.update(key, key.encode() * 50, expected=revision)
                os.write(1, f"update {key} {revision}\n".encode())
                if number % 3 == 0:
                    revision = await store.delete(key, expected=revision)
                    os.write(1, f"delete {key} {revision}\n".encode())
                number += 1

        await asyncio.gather(*(writer(name) for name in range(16)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
