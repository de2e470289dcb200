"""StatefulSets: pods with an ordinal, a stable name and their own volume claims.

- `controller`: what is done for a changed StatefulSet
- `replicas`: ordinals, names and pods of a StatefulSet
- `claims`: volume claims and their retention policy
"""

from .controller import add_stateful_set_controller as add_stateful_set_controller
