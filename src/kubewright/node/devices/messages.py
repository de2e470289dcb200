"""Messages and services of device plug-ins, API version `v1beta1`."""

from __future__ import annotations

from typing import Annotated, Final

from kubewright.node.messages import Empty, Message
from kubewright.node.rpc import Method, Service

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
DIRECTORY: Final = "device-plugins"
"""Name of the directory of the sockets, below that of the kubelet."""
KUBELET_SOCKET: Final = "kubelet.sock"


class DevicePluginOptions(Message):
    """Calls that a plug-in supports."""

    pre_start_required: Annotated[bool, 1] = False
    get_preferred_allocation_available: Annotated[bool, 2] = False


class RegisterRequest(Message):
    """A plug-in that registers; `endpoint` is the name of its socket."""

    version: Annotated[str, 1] = ""
    endpoint: Annotated[str, 2] = ""
    resource_name: Annotated[str, 3] = ""
    options: Annotated[DevicePluginOptions | None, 4] = None


class NUMANode(Message):
    """A NUMA node."""

    id: Annotated[int, 1] = 0


class TopologyInfo(Message):
    """NUMA nodes that a device is close to."""

    nodes: Annotated[list[NUMANode], 1] = []


class DeviceMessage(Message):
    """A device on the wire."""

    id: Annotated[str, 1] = ""
    health: Annotated[str, 2] = ""
    topology: Annotated[TopologyInfo | None, 3] = None


class ListAndWatchResponse(Message):
    """All devices of a plug-in."""

    devices: Annotated[list[DeviceMessage], 1] = []


class PreStartContainerRequest(Message):
    """Devices of a container that is started."""

    device_ids: Annotated[list[str], 1] = []


class ContainerPreferredAllocationRequest(Message):
    """Devices to choose from."""

    available_device_ids: Annotated[list[str], 1] = []
    must_include_device_ids: Annotated[list[str], 2] = []
    allocation_size: Annotated[int, 3] = 0


class PreferredAllocationRequest(Message):
    """One choice per container."""

    container_requests: Annotated[list[ContainerPreferredAllocationRequest], 1] = []


class ContainerPreferredAllocationResponse(Message):
    """The preferred devices of a container."""

    device_ids: Annotated[list[str], 1] = []


class PreferredAllocationResponse(Message):
    """The preferred devices, one entry per container."""

    container_responses: Annotated[list[ContainerPreferredAllocationResponse], 1] = []


class ContainerAllocateRequest(Message):
    """Devices that a container gets."""

    device_ids: Annotated[list[str], 1] = []


class AllocateRequest(Message):
    """One allocation per container."""

    container_requests: Annotated[list[ContainerAllocateRequest], 1] = []


class Mount(Message):
    """A path of the node that is mounted into a container."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    read_only: Annotated[bool, 3] = False


class DeviceSpec(Message):
    """A device file of the node in a container; permissions are of `r`, `w` and `m`."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class CDIDevice(Message):
    """A device of the Container Device Interface, by its full name."""

    name: Annotated[str, 1] = ""


class Allocation(Message):
    """What a container gets with its devices."""

    envs: Annotated[dict[str, str], 1] = {}
    mounts: Annotated[list[Mount], 2] = []
    devices: Annotated[list[DeviceSpec], 3] = []
    annotations: Annotated[dict[str, str], 4] = {}
    cdi_devices: Annotated[list[CDIDevice], 5] = []


class AllocateResponse(Message):
    """The allocations, one per container."""

    container_responses: Annotated[list[Allocation], 1] = []


REGISTER: Final = Method("Register", RegisterRequest, Empty)
REGISTRATION: Final = Service("v1beta1.Registration", REGISTER)

GET_OPTIONS: Final = Method("GetDevicePluginOptions", Empty, DevicePluginOptions)
LIST_AND_WATCH: Final = Method("ListAndWatch", Empty, ListAndWatchResponse, streams=True)
GET_PREFERRED: Final = Method(
    "GetPreferredAllocation", PreferredAllocationRequest, PreferredAllocationResponse
)
ALLOCATE: Final = Method("Allocate", AllocateRequest, AllocateResponse)
PRE_START: Final = Method("PreStartContainer", PreStartContainerRequest, Empty)
DEVICE_PLUGIN: Final = Service(
    "v1beta1.DevicePlugin", GET_OPTIONS, LIST_AND_WATCH, GET_PREFERRED, ALLOCATE, PRE_START
)
