"""The deployment of an operator: everything that `kubectl apply` needs to run it in a cluster.

    tree = build_tree(project, ProjectSettings.load("."), definitions, problems)
    write texts of tree.texts()

What the settings switch on is part of the tree, with final names: there is nothing to uncomment or replace.

- `tree`: the files and their objects
- `names`: names, ports and labels
- `permissions`: ServiceAccount, roles and bindings
- `manager`: Namespace and Deployment
- `network`: Services, NetworkPolicies, ServiceMonitor
- `webhooks`: webhook configurations and certificates
- `alerts`: alert rules; `dashboard`: Grafana dashboard; `samples`: sample objects
- `apiserver`: deployment of an extension API server: roles, pod, Service, APIServices and certificates
- `containers`: parts that the containers of operators and API servers share: Pod Security, resources and
  probes
"""

from __future__ import annotations

from .names import DeploymentNames
from .tree import DeploymentTree, build_tree, operator_deployment

__all__ = ["DeploymentNames", "DeploymentTree", "build_tree", "operator_deployment"]
