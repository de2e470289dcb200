"""Kinds of the API group flowcontrol.apiserver.k8s.io: FlowSchema and PriorityLevelConfiguration."""
