"""Plug-ins of kubelets over gRPC: device plug-ins and CSI drivers (extra `node`).

    class SerialPorts(DevicePlugin):
        resource = "example.com/serial-port"
        ...

    await SerialPorts().run()

Modules:

- `devices`: `DevicePlugin`, devices as an extended resource of a node
- `csi`: `CSIDriver`, storage drivers and their controllers
- `machine`: kubelet, kube-proxy and containerd as programs of this machine
- `plugin_registration`: how a kubelet finds CSI drivers
- `messages`: protobuf messages declared as Python types; `rpc`: gRPC over unix sockets; `errors`: codes
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
