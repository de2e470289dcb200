"""An audit webhook: appends events to a file, and reports users whose requests are denied often.

    python audit_webhook.py --log audit.jsonl --certificate tls.crt --key tls.key

The API server sends batches, and sends one again if the response is an error: events are recognized by
`auditID` and stage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from kubewright.manager.signals import stopping_on_signals
from kubewright.webhook import AuditSink, CertificateFiles, WebhookServer

logger = logging.getLogger(__name__)

LIMIT = 5
"""Number of denied requests after which a user is reported."""
REMEMBERED = 10_000


class AuditLog:
    """Audit events in a file, one JSON document per line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.denied: Counter[str] = Counter()
        """Number of denied requests by user."""

    def add(self, events: list[dict[str, Any]]) -> None:
        """Append the events that are not known yet."""
        new = [each for each in events if (each["auditID"], each["stage"]) not in self._known]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in new)
        for each in new:
            self._known[each["auditID"], each["stage"]] = None
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            self._count(each)

    def _count(self, event: dict[str, Any]) -> None:
        if (event.get("responseStatus") or {}).get("code") != 403 or event["stage"] != "ResponseComplete":
            return
        user = event["user"]["username"]
        self.denied[user] += 1
        if self.denied[user] == LIMIT:
            logger.warning("requests of a user are denied", extra={"user": user, "count": LIMIT})


def add_to(server: WebhookServer, log: AuditLog) -> None:
    """Serve batches of audit events at /audit."""
    server.add_endpoint("/audit", AuditSink(log.add))


async def main() -> None:
    parser = argparse.ArgumentParser(description="Audit webhook.")
    parser.add_argument("--log", type=Path, required=True, help="file to append to")
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--port", type=int, default=9443)
    options = parser.parse_args()
    server = WebhookServer(CertificateFiles(options.certificate, options.key), port=options.port)
    add_to(server, AuditLog(options.log))
    stop = asyncio.Event()
    with stopping_on_signals(stop):
        await server.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
