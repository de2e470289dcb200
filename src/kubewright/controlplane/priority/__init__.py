"""Priority and fairness from the FlowSchemas and priority levels of the cluster.

- `flow_classifier`: priority and fairness from stored objects: FlowSchemas and PriorityLevelConfigurations
- `flow_metrics`: metrics of priority levels, under the names of kube-apiserver
"""
