"""Kinds of the API group events.k8s.io: Event.

- `event`: event, of the core group and of events.k8s.io
"""
