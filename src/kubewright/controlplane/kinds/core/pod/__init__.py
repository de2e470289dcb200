"""Pod and Binding.

- `printing`: table columns and cells of pods
- `strategy`: strategy of pods
- `subresources`: subresources of pods: binding, eviction, logs, streams
- `updates`: validation of updates of pods
"""

from kubewright.controlplane.kinds.kind import STATUS, Kind

from .printing import COLUMNS, cells
from .strategy import FIELD_SELECTORS, PodStrategy
from .subresources import SUBRESOURCES, bind

KINDS = {
    "pods": Kind(
        strategy=PodStrategy,
        columns=COLUMNS,
        cells=cells,
        generation_fields=("spec",),
        returns_deleted_object=True,
        field_selectors=FIELD_SELECTORS,
        subresources={"status": STATUS, **SUBRESOURCES},
        checks_whole_on_update=True,
    ),
    "bindings": Kind(verbs={"create": bind}),
}
