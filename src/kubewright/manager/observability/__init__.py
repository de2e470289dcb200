"""What a running operator shows: logs, probes, metrics, spans, a live view.

- `console`: live view of a running operator in a terminal
- `event_loop_monitor`: `EventLoopMonitor`: finds calls that block the event loop, and names the function and
  the line
- `http`: HTTP servers of a manager: health probes and metrics
- `log_handler`: `LazyLogHandler`: structured log lines on stderr, without the cost of a formatter before the
  first one
- `logs`: log formatting: a fixed message with structured fields, for terminals or as JSON
- `probes`: health and readiness: `/healthz` and `/readyz`, with named checks
- `trace_feed`: `TraceFeed`: the spans of one or more managers, and every second the state of its queues, as
  plain data
- `trace_server`: `TraceServer`: serves the spans of an operator to a dashboard in another process
"""
