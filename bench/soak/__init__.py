"""Long-running mixed load on a control plane: no failures, no memory growth, no lost writes.

    python -m bench.soak --seconds 600

Thirty-two workers create, get, list, update, patch, apply and delete custom resources and built-in kinds,
each with its own objects, and increment a few shared counters. Meanwhile webhooks mutate and deny requests
and are created and deleted, CRDs are changed, created and deleted with their objects, owners are deleted with
their dependents and namespaces with their content, and watches maintain a copy of all objects.

Every worker stores the expected state of its objects: the response to the last write. Every read is compared
with it; at the end so are the copies of the watches and a final list. The server's memory is read once a
second; at the end it may exceed the memory after the warm-up by at most a tenth.
"""

from __future__ import annotations

from bench.soak.report import Report
from bench.soak.run import soak

__all__ = ["Report", "soak"]
