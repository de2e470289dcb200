"""Responses of a control plane on a full disk and on a read-only disk.

Runs in its own mount namespace (`unshare -rm`): small_disk.py full|readonly DIRECTORY
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import InternalError
from kubewright.client import Client
from kubewright.controlplane import ControlPlane


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"text": "x" * 20_000})


async def check_writes_fail(client: Client, message: str) -> None:
    """Check that writes return an error with a message, and that reads still work."""
    outcomes = await asyncio.gather(
        *(client.create(config_map(f"failed-{number}")) for number in range(20)), return_exceptions=True
    )
    for outcome in outcomes:
        assert isinstance(outcome, InternalError), outcome
        assert outcome.code == 500, outcome
        assert message in outcome.message, outcome
    assert (await client.get(ConfigMap, "kept", namespace="default")).data is not None
    names = {each.metadata.name async for each in client.list(ConfigMap, namespace="default")}
    assert "kept" in names
    assert not any(name.startswith("failed") for name in names)


@contextlib.asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Client]:
    store, kubeconfig = f"sqlite:{directory / 'state.db'}", directory.with_name("kubeconfig")
    async with (
        ControlPlane(store=store, port=0, kubeconfig=kubeconfig),
        Client.connect(kubeconfig, metrics=False) as client,
    ):
        yield client


async def full(directory: Path) -> None:
    ballast = directory / "ballast"
    async with served(directory) as client:
        kept = await client.create(config_map("kept"))
        watch = client.watch(ConfigMap, namespace="default", fields="metadata.name=kept")
        following = aiter(watch)
        assert (await anext(following)).object == kept
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        await check_writes_fail(client, "the disk is full; free some space")
        ballast.unlink()
        kept.data = {"text": "y"}
        changed = await client.update(kept)
        assert (await anext(following)).object == changed
        await watch.aclose()
    async with served(directory) as client:
        assert await client.get(ConfigMap, "kept", namespace="default") == changed


async def readonly(directory: Path) -> None:
    async with served(directory) as client:
        kept = await client.create(config_map("kept"))
    mount("-o", "remount,ro", str(directory))
    async with served(directory) as client:
        await check_writes_fail(client, "the file is read-only; make it and its directory writable")
        mount("-o", "remount,rw", str(directory))
        kept.data = {"text": "y"}
        changed = await client.update(kept)
    async with served(directory) as client:
        assert await client.get(ConfigMap, "kept", namespace="default") == changed


def main(fault: str, directory: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory))
    asyncio.run({"full": full, "readonly": readonly}[fault](directory))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
