"""A process that writes continuously while it is the leader. Started by test_paused_leaders.

    python elected_writer.py KUBECONFIG IDENTITY LATER

It patches the ConfigMap `diary` with its identity through the fenced client of a manager, and prints the
monotonic times at which it started to read the Lease, each after the response. When the file `LATER` exists,
its clock is ahead by more than the duration of a lease: the test decides when leases expire, not the speed of
the machine. An attempt to acquire the Lease sees one time only: a Lease that was acquired while the clock
changed would have expired already.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path

from kubewright.api.core.v1 import ConfigMap
from kubewright.client import APIRequest, APIResponse, CallNext, Client, ResponseStream, patches
from kubewright.manager import Cluster, LeaderElector, Manager
from kubewright.manager.elections.leader_election import boot_clock

LEASE_DURATION = 300.0


async def main(kubeconfig: str, identity: str, later: str) -> None:
    acquiring = ahead = False

    def clock() -> float:
        nonlocal ahead
        if not acquiring:
            ahead = Path(later).exists()
        return boot_clock() + (2 * LEASE_DURATION if ahead else 0.0)

    class Elector(LeaderElector):
        async def _try(self) -> bool:
            nonlocal acquiring
            acquiring = not self.is_leader()
            try:
                return await super()._try()
            finally:
                acquiring = False

    async def report(call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        started = time.monotonic()
        response = await proceed(call)
        if call.verb == "get":
            print(started, flush=True)
        return response

    async with Client.connect(kubeconfig) as client:
        elector = Elector(
            client.with_interceptor(report),
            "writer",
            namespace="default",
            identity=identity,
            lease_duration=LEASE_DURATION,
            renew_deadline=LEASE_DURATION - 60,
            retry_period=0.2,
            clock=clock,
        )
        manager = Manager(Cluster(client), elector=elector)

        class Writer:
            async def run(self, stop: asyncio.Event) -> None:
                for count in itertools.count():
                    if stop.is_set():
                        return
                    change = patches.merge_patch({"data": {"writer": identity, "count": str(count)}})
                    await manager.client.patch(ConfigMap, "diary", change, namespace="default")

        manager.add(Writer())
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
