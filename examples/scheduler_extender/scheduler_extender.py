"""A scheduler extender: pods that need a license run only on hosts that the license server allows.

    python scheduler_extender.py --licenses licenses.yaml --certificate tls.crt --key tls.key

The file has the free licenses of each host: `{node-0: {matlab: 2}}`. Pods name a product in the annotation
`example.com/license`. Use an extender for a decision of another system, with an unchanged scheduler. A
plug-in of a scheduler of your own (`examples/scheduler_plugin`) is faster and sees the whole cluster.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import yaml

from kubewright.api.core.v1 import Node, Pod
from kubewright.manager.signals import stopping_on_signals
from kubewright.webhook import CertificateFiles, SchedulerExtender, WebhookServer
from kubewright.webhook.scheduler_extender import MAX_PRIORITY

ANNOTATION = "example.com/license"
Licenses = dict[str, dict[str, int]]


class LicenseServer:
    """Free licenses by host and product."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def free(self, pod: Pod, node: Node) -> int | None:
        """Return the free licenses of the product of a pod on a node; `None` if the pod needs none."""
        product = (pod.metadata.annotations or {}).get(ANNOTATION)
        if product is None:
            return None
        licenses: Licenses = yaml.safe_load(self._path.read_text()) or {}
        return licenses.get(node.metadata.name or "", {}).get(product, 0)


def extender_for(server: LicenseServer) -> SchedulerExtender:
    """Return an extender that rejects hosts without a license, and prefers those with many."""

    def has_license(pod: Pod, node: Node) -> bool | str:
        free = server.free(pod, node)
        return free is None or free > 0 or f"{node.metadata.name} has no free license"

    def score(pod: Pod, node: Node) -> int:
        return min(server.free(pod, node) or 0, MAX_PRIORITY)

    return SchedulerExtender(filter=has_license, prioritize=score)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Scheduler extender for licenses.")
    parser.add_argument("--licenses", type=Path, required=True)
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--port", type=int, default=9443)
    options = parser.parse_args()
    server = WebhookServer(CertificateFiles(options.certificate, options.key), port=options.port)
    extender_for(LicenseServer(options.licenses)).add_to(server, "/scheduler")
    stop = asyncio.Event()
    with stopping_on_signals(stop):
        await server.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
