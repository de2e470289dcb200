"""A process that writes continuously while it is the leader. Started by test_paused_leaders.

    python elected_writer.py KUBECONFIG IDENTITY

It patches the ConfigMap `diary` with its identity through the fenced client of a manager.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client, patches
from kubewright.manager import Cluster, LeaderElector, Manager


async def main(kubeconfig: str, identity: str) -> None:
    async with Client.connect(kubeconfig) as client:
        elector = LeaderElector(
            client,
            "writer",
            namespace="default",
            identity=identity,
            lease_duration=2.0,
            renew_deadline=1.2,
            retry_period=0.2,
        )
        manager = Manager(Cluster(client), elector=elector)

        class Writer:
            async def run(self, stop: asyncio.Event) -> None:
                for count in itertools.count():
                    if stop.is_set():
                        return
                    change = patches.merge_patch({"data": {"writer": identity, "count": str(count)}})
                    await manager.client.patch(ConfigMap, change, name="diary", namespace="default")
                    print(count, flush=True)

        manager.add(Writer())
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
