"""An authentication webhook: API keys of users, from a file with their digests.

    python token_webhook.py --keys keys.yaml --certificate tls.crt --key tls.key

The API server sends the bearer tokens that it cannot verify itself. The file has an entry for each key; it is
read again when it has changed, so a key is revoked by deleting its entry.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

from kubewright.manager.signals import stopping_on_signals
from kubewright.webhook import CertificateFiles, Denied, TokenReviewer, UserInfo, WebhookServer


class KeyFile:
    """Users by the SHA-256 digests of their API keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0
        self._entries: list[dict[str, Any]] = []

    def find_user(self, key: str) -> UserInfo | None:
        """Return the user of a key, or `None`; raise `Denied` if the key has expired."""
        changed = self._path.stat().st_mtime_ns
        if changed != self._read_at:
            self._entries = yaml.safe_load(self._path.read_text()) or []
            self._read_at = changed
        digest = hashlib.sha256(key.encode()).hexdigest()
        for entry in self._entries:
            if hmac.compare_digest(str(entry["sha256"]), digest):
                expires = entry.get("expires")
                if expires and date.fromisoformat(str(expires)) < datetime.now(UTC).date():
                    raise Denied(f"the API key of {entry['user']} expired on {expires}")
                return UserInfo(username=f"key:{entry['user']}", groups=entry.get("groups"))
        return None


def add_to(server: WebhookServer, keys: KeyFile) -> None:
    """Serve token reviews at /authenticate."""
    server.add_endpoint("/authenticate", TokenReviewer(keys.find_user))


async def main() -> None:
    parser = argparse.ArgumentParser(description="Authentication webhook for API keys.")
    parser.add_argument(
        "--keys", type=Path, required=True, help="YAML file with user, groups, sha256, expires"
    )
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--port", type=int, default=9443)
    options = parser.parse_args()
    server = WebhookServer(CertificateFiles(options.certificate, options.key), port=options.port)
    add_to(server, KeyFile(options.keys))
    stop = asyncio.Event()
    with stopping_on_signals(stop):
        await server.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
