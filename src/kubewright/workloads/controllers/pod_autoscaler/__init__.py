"""Controller of HorizontalPodAutoscalers (`horizontal-pod-autoscaler-controller`).

- `controller`: `add_horizontal_pod_autoscaler_controller` and the reconciler
- `metric_proposals`: the number of replicas that each metric proposes; `replica_calculation`: its formulas
- `scaling_rules`: stabilization windows and rate limits
"""

from .controller import add_horizontal_pod_autoscaler_controller as add_horizontal_pod_autoscaler_controller
