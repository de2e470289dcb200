"""Controllers that publish the addresses of the pods behind services.

- `slice_controller`: EndpointSlices of services with a selector (`endpointslice-controller`)
- `endpoints_controller`: Endpoints of services with a selector (`endpoints-controller`)
- `mirroring_controller`: EndpointSlices for Endpoints that users manage
  (`endpointslice-mirroring-controller`)
- `service_pods`: which pods belong to which service, and their addresses and ports
- `slice_packing`: distribution of endpoints over slices with a limited size
- `trigger_times`: the annotation with the time of the last change
"""

from .endpoints_controller import add_endpoints_controller as add_endpoints_controller
from .mirroring_controller import (
    add_endpointslice_mirroring_controller as add_endpointslice_mirroring_controller,
)
from .slice_controller import add_endpointslice_controller as add_endpointslice_controller
