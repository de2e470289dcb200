"""The kubeconfig file of a control plane on this machine: whether it is running, or may be overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubewright.trusted_files import UntrustedFile, check_file

PROBE_SECONDS = 10.0
"""Timeout of the connection to the control plane of an existing kubeconfig, which may be busy."""


def check_overwrite(path: Path) -> None:
    """Raise an error if the file is a kubeconfig of another cluster or of a running control plane."""
    server = find_running(path)
    if server:
        raise click.ClickException(
            f"{path} belongs to the control plane at {server}, which is running; stop it, or "
            "choose another file with --kubeconfig"
        )


def find_running(path: Path) -> str:
    """Return the URL of the control plane that wrote a kubeconfig, if it is running; else an empty string.

    Raise an error if the file exists and was not written by `kubewright up`, or if another user could have
    written it, or could replace it.
    """
    try:
        check_file(path)
    except UntrustedFile as error:
        raise click.ClickException(f"{error}; or choose another file with --kubeconfig") from None
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return ""
    import yaml

    found: Any = None
    try:
        found = yaml.load(text, Loader=yaml.CSafeLoader)
        names = [each["name"] for each in found["clusters"]] if found else ["kubewright"]
    except (yaml.YAMLError, KeyError, TypeError):
        names = []
    if names != ["kubewright"]:
        content = f"a kubeconfig of {', '.join(map(str, names))}" if names else "not a kubeconfig"
        raise click.ClickException(
            f"{path} already exists and is {content}; choose another file with --kubeconfig"
        )
    cluster = (found["clusters"][0].get("cluster") or {}) if found else {}
    server = str(cluster.get("server", ""))
    return server if _is_running(server, str(cluster.get("certificate-authority-data", ""))) else ""


def _is_running(server: str, ca_bundle: str) -> bool:
    """Whether a control plane accepts connections, with a certificate of the CA of its kubeconfig."""
    import base64
    import socket
    import ssl
    from urllib.parse import urlsplit

    try:
        url = urlsplit(server)
        if not url.hostname or not url.port:
            return False
        with socket.create_connection((url.hostname, url.port), timeout=PROBE_SECONDS) as connection:
            context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
            with context.wrap_socket(connection, server_hostname=url.hostname):
                return True
    except (OSError, ValueError):  # also an ssl.SSLError: another program uses the port now
        return False
