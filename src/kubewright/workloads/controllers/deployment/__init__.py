"""Deployments: roll pod templates out through ReplicaSets.

- `controller`: what is done for a changed Deployment
- `replica_sets`: the new and the old ReplicaSets, revisions and annotations
- `strategy`: how many replicas each ReplicaSet has during a rolling update, a scaling or a re-creation
- `progress`: status and conditions
"""

from .controller import add_deployment_controller as add_deployment_controller
