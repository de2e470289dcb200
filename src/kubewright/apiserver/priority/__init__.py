"""Limits on concurrent requests: by user, and by priority level.

- `flow_control`: priority and fairness: seats of priority levels, and queues of their flows
- `flow_statistics`: what happened to the requests of one FlowSchema in a priority level, for the metrics of
  flow control
- `limits`: limits on what the requests of all users use at the same time, with a share for each user
- `work_estimate`: how many seats of its priority level a request occupies: estimates with the rules of
  kube-apiserver
"""
