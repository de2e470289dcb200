"""Operators that are connected to the dashboard, and their spans.

- `object_evidence`: `ObjectEvidence`: the last failure and the last success of every reconciled object
- `operator_dashboard`: `OperatorDashboard`: the dashboard in the process of an operator, with its spans
- `operator_endpoint`: where the trace endpoint of an operator is: a URL, or the port of a pod that the
  dashboard forwards
- `remote_traces`: `RemoteTraces`: reads the spans of an operator in another process from its trace endpoint
- `traces`: `TraceStore`: what the connected operator did, bounded in memory
"""
