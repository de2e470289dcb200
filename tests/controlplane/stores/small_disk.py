"""What a control plane answers when its disk fills up, and when it can only be read.

Runs in a mount namespace of its own (`unshare -rm`): small_disk.py full|readonly DIRECTORY
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
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


async def refused(client: Client, words: str) -> None:
    """Writes are answered with what is wrong; reads and watches go on."""
    outcomes = await asyncio.gather(
        *(client.create(config_map(f"refused-{number}")) for number in range(20)), return_exceptions=True
    )
    for outcome in outcomes:
        assert isinstance(outcome, InternalError), outcome
        assert outcome.code == 500, outcome
        assert words in outcome.message, outcome
    assert (await client.get(ConfigMap, "kept", "default")).data is not None
    names = {each.metadata.name async for each in client.list(ConfigMap, namespace="default")}
    assert "kept" in names
    assert not any(name.startswith("refused") for name in names)


async def main(fault: str, directory: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory))
    store, kubeconfig = f"sqlite:{directory / 'state.db'}", directory.with_name("kubeconfig")
    ballast = directory / "ballast"
    async with (
        ControlPlane(store=store, port=0, kubeconfig=kubeconfig, controllers=False),
        Client.connect(kubeconfig, metrics=False) as client,
    ):
        await client.create(config_map("kept"))
        watch = client.watch(ConfigMap, namespace="default")
        following = aiter(watch)
        assert (await anext(following)).object.metadata.name == "kept"
        if fault == "full":
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"\0" * 4096)
                except OSError:
                    pass
            await refused(client, "the disk is full; free some space")
            ballast.unlink()
        else:
            mount("-o", "remount,ro", str(directory))
            await refused(client, "the file is read-only; make it and its directory writable")
            mount("-o", "remount,rw", str(directory))
        made = await client.create(config_map("after"))
        seen = await anext(following)
        assert seen.object.metadata.resource_version == made.metadata.resource_version
        await watch.aclose()
    async with (
        ControlPlane(store=store, port=0, kubeconfig=kubeconfig, controllers=False),
        Client.connect(kubeconfig, metrics=False) as client,
    ):
        assert await client.get(ConfigMap, "after", "default") == made


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
