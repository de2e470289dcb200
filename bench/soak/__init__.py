"""A control plane under mixed load for a long time: nothing may fail, grow or get lost.

    python -m bench.soak --seconds 600

Thirty-two workers create, get, list, update, patch, apply and delete custom resources and built-in kinds,
each with objects of its own and all of them with a few counters that they share. Meanwhile webhooks mutate,
refuse and come and go, definitions change, come and go with their objects, owners go with their dependents,
namespaces go with their content, and watches keep a copy of everything.

Every worker knows what each of its objects has to look like: the last answer that acknowledged a write.
Every read is compared with it, and so is everything that is there at the end, with the copies of the watches
and with a last list. The server's memory is read once a second; what it holds after a warm-up it may not
exceed by more than a tenth at the end.
"""

from __future__ import annotations

from bench.soak.report import Report
from bench.soak.run import soak

__all__ = ["Report", "soak"]
