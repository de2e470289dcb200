"""Storage drivers: the Container Storage Interface in Python.

    class Disks(CSIDriver):
        name = "disks.csi.example.com"

        async def create_volume(self, request: CreateVolumeRequest) -> Volume: ...
        async def delete_volume(self, request: DeleteVolumeRequest) -> None: ...
        async def node_publish_volume(self, request: NodePublishVolumeRequest) -> None: ...
        async def node_unpublish_volume(self, request: NodeUnpublishVolumeRequest) -> None: ...

    await Disks().run(node="node-0", client=client)

Modules:

- `driver`: `CSIDriver`, the base class; `calls`: the gRPC calls as calls of a driver
- `messages`, `services`: the API; `client`: a connection to a driver
- `controller_manager`: the controllers of a driver; `provisioner`, `attacher`, `resizer`, `snapshotter`
- `snapshot_types`: kinds of snapshots; `volumes`: claims and volumes in the terms of CSI
- `sidecar`: what the controllers of a CSI driver share: the driver, the client and the events
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
