"""Device plug-in for serial ports: each device file in a directory is one device.

python device_plugin.py --devices /dev/serial/by-id
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from kubewright.manager.observability import logs
from kubewright.node import Allocation, Device, DevicePlugin, DeviceSpec, Mount

POLL_SECONDS = 5.0
"""Time between checks of the directory."""


class SerialPorts(DevicePlugin):
    """Serial ports. A port whose file is removed stays known, as unhealthy."""

    resource = "example.com/serial-port"

    def __init__(self, directory: Path, *, interval: float = POLL_SECONDS) -> None:
        super().__init__()
        self._directory = directory.absolute()
        self._interval = interval

    async def devices(self) -> AsyncIterator[Iterable[Device]]:
        """Yield the ports when one was plugged in or removed."""
        known: set[str] = set()
        before: list[Device] | None = None
        while True:
            present = {path.name for path in self._directory.glob("tty*")}
            known |= present
            found = [Device(name, healthy=name in present) for name in sorted(known)]
            if found != before:
                yield found
                before = found
            await asyncio.sleep(self._interval)

    async def get_preferred_allocation(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Choose neighbours: ports with consecutive names are on one adapter."""
        names = sorted(available)
        windows = [names[at : at + size] for at in range(len(names) - size + 1)]
        return next((each for each in windows if set(required) <= set(each)), names[:size])

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Give a container its ports, their names in a variable, and the directory of lock files."""
        locks = self._directory / "lock"
        locks.mkdir(exist_ok=True)
        return Allocation(
            envs={"SERIAL_PORTS": ",".join(f"/dev/{name}" for name in ids)},
            devices=[
                DeviceSpec(
                    container_path=f"/dev/{name}", host_path=str(self._directory / name), permissions="rw"
                )
                for name in ids
            ],
            mounts=[Mount(container_path="/var/lock/serial", host_path=str(locks))],
        )

    async def pre_start_container(self, ids: Sequence[str]) -> None:
        """Fail the start of a container whose port was removed after the allocation."""
        for name in ids:
            os.stat(self._directory / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=Path, default=Path("/dev/serial/by-id"))
    parser.add_argument("--kubelet-directory", type=Path, default=Path("/var/lib/kubelet"))
    arguments = parser.parse_args()
    logs.setup()
    asyncio.run(SerialPorts(arguments.devices).run(kubelet_directory=arguments.kubelet_directory))


if __name__ == "__main__":
    main()
