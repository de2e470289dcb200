"""Service.

- `allocation`: allocation of cluster IPs and node ports
- `families`: IP families of services: defaults, and changes between one and two families
- `printing`: table columns and cells of services
- `proxy`: the `proxy` subresource of services
- `strategy`: strategy of services: defaults, families, allocation of addresses and ports
- `validation`: validation of services: a table of rules for the spec, and the fields that are immutable
"""

from kubewright.api.values import names
from kubewright.controlplane.kinds.kind import STATUS, Kind

from .printing import COLUMNS, cells
from .proxy import PROXY
from .strategy import ServiceStrategy

KINDS = {
    "services": Kind(
        strategy=ServiceStrategy,
        validate_name=names.check_dns_label,
        allow_create_on_update=True,
        returns_deleted_object=True,
        columns=COLUMNS,
        cells=cells,
        field_selectors={"spec.clusterIP": ".spec.clusterIP", "spec.type": ".spec.type"},
        subresources={"status": STATUS, "proxy": PROXY},
        display_prefix="services/specs",
    )
}
