"""Dynamic resource allocation (DRA): publishes the cameras of nodes as ResourceSlices.

A node with the label `cameras.example.com/count` has that many cameras. Pods claim them with a ResourceClaim
of the DeviceClass `camera`; the scheduler allocates cameras, and places the pod on their node.

    kubewright run resource_driver --development
"""

from __future__ import annotations

from kubewright import Context, ObjectMeta, Operator
from kubewright.api.core.v1 import Node
from kubewright.api.resources.v1 import (
    Device,
    DeviceAttribute,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "cameras.example.com"
COUNT = f"{DRIVER}/count"

operator = Operator("cameras")


@operator.reconcile(Node, owns=(ResourceSlice,))
async def publish(node: Node, ctx: Context[Node]) -> None:
    """Publish the cameras of a node in one slice, and delete the slice of a node without cameras."""
    count = int((node.metadata.labels or {}).get(COUNT, "0"))
    await ctx.ensure([slice_for(node.metadata.name or "", count)] if count else [])


def slice_for(node: str, count: int) -> ResourceSlice:
    """Return the slice of a node: its pool has the name of the node."""
    devices = [
        Device(name=f"camera-{number}", attributes={"index": DeviceAttribute(int_=number)})
        for number in range(count)
    ]
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{node}-{DRIVER}"),
        spec=ResourceSliceSpec(
            driver=DRIVER,
            node_name=node,
            pool=ResourcePool(name=node, generation=count, resource_slice_count=1),
            devices=devices,
        ),
    )
