"""Prometheus metrics of the server.

- `requests`: requests, durations, response sizes.
- `storage`: calls to storage, stored objects, watch events.
"""
