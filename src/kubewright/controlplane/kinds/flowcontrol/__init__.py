"""Kinds of the API group flowcontrol.apiserver.k8s.io: FlowSchema and PriorityLevelConfiguration.

- `flow_schema`: FlowSchema
- `priority_level_configuration`: PriorityLevelConfiguration
"""
