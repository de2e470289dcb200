"""The driver of dynamic resource allocation: devices are published, claimed, and decide where a pod runs."""

from pathlib import Path

from kubewright.api.core.v1 import Node, Pod
from kubewright.api.resources.v1 import ResourceClaim, ResourceSlice
from kubewright.client import condition, exists, is_deleted, merge_patch
from kubewright.testing.operators import run_operator
from kubewright.testing.server import start_test_server
from resource_driver import COUNT, DRIVER, operator

SAMPLE = Path(__file__).parents[2] / "examples" / "resource_driver" / "sample.yaml"


async def test_devices_are_published_and_claimed():
    async with start_test_server("in-process", controllers=True, nodes=3) as server:
        client = server.client()

        async def label(node, count):
            await client.patch(Node, node, merge_patch({"metadata": {"labels": {COUNT: count}}}))

        async def wait(kind, name, until):
            return await client.wait(kind, name, until=until, timeout=60)

        async with run_operator(operator, client):
            await label("node-1", "1")
            published = await wait(ResourceSlice, f"node-1-{DRIVER}", exists)
            assert [device.name for device in published.spec.devices] == ["camera-0"]
            await client.apply_yaml(SAMPLE)
            pod = await wait(Pod, "recorder", condition("Ready"))
            assert pod.spec.node_name == "node-1"
            [claim] = await client.list(ResourceClaim)
            [allocated] = claim.status.allocation.devices.results
            assert (allocated.driver, allocated.pool, allocated.device) == (DRIVER, "node-1", "camera-0")

            # The only camera is in use: a second pod waits until another node has one.
            other = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "second", "namespace": "default"},
                "spec": {
                    "resourceClaims": [{"name": "camera", "resourceClaimTemplateName": "one-camera"}],
                    "containers": [
                        {"name": "a", "image": "i", "resources": {"claims": [{"name": "camera"}]}}
                    ],
                },
            }
            await client.create(other)
            await wait(Pod, "second", condition("PodScheduled", "False"))
            await label("node-2", "2")
            placed = await wait(Pod, "second", condition("Ready"))
            assert placed.spec.node_name == "node-2"
            await label("node-1", None)
            await wait(ResourceSlice, f"node-1-{DRIVER}", is_deleted)
