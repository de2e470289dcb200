"""Prometheus metrics of the server.

- `requests`: requests, durations, response sizes.
- `admission`: durations of plug-ins, webhooks and policies.
- `storage`: calls to storage, stored objects, watch events.
"""
