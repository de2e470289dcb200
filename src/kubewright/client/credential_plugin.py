"""Credential plug-ins of kubectl and other clients: exec plug-ins of `client.authentication.k8s.io`.

    @click.command("example-login", cls=CredentialPlugin)
    @click.option("--url", required=True, help="Token service.")
    def main(request: CredentialRequest, url: str) -> Credential:
        cache = CredentialCache("example-login", url)
        return cache.get() or cache.store(log_in(url, request.prompt("Password", hide_input=True)))

    users:
    - name: ann
      user:
        exec:
          apiVersion: client.authentication.k8s.io/v1
          command: example-login
          args: [--url, https://login.example.com]
          interactiveMode: IfAvailable
          provideClusterInfo: true

A client runs the program when it needs credentials, describes the request in `KUBERNETES_EXEC_INFO` (v1 or
v1beta1), and reads an `ExecCredential` from its standard output; prompts and messages go to standard error.
The client runs it again after the expiry, or when the API server rejects the credential. Each run of kubectl
is a new process: `CredentialCache` stores a credential between them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from kubewright.api.values.times import format_time, parse_time

EXEC_INFO: Final = "KUBERNETES_EXEC_INFO"
GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
EARLY: Final = timedelta(seconds=30)
"""How long before its expiry a stored credential is not used any more."""


class CredentialError(click.ClickException):
    """The plug-in cannot return a credential: one line on standard error, exit code 1."""


@dataclass(frozen=True)
class ClusterInfo:
    """The cluster that the credential is for, if the kubeconfig has `provideClusterInfo: true`."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    """The CA bundle in PEM."""
    proxy_url: str = ""
    disable_compression: bool = False
    config: Any = None
    """The extension `client.authentication.k8s.io/exec` of the cluster in the kubeconfig."""


@dataclass(frozen=True)
class CredentialRequest:
    """What a client asks for."""

    api_version: str = VERSIONS[0]
    interactive: bool = False
    """Whether standard input is a terminal of the user that the plug-in may use."""
    cluster: ClusterInfo | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> CredentialRequest:
        """Read `KUBERNETES_EXEC_INFO`; without it the user has started the plug-in in a terminal."""
        text = (os.environ if environ is None else environ).get(EXEC_INFO)
        if not text:
            return cls(interactive=sys.stdin is not None and sys.stdin.isatty())
        try:
            info = json.loads(text)
            version, spec = info["apiVersion"], info.get("spec") or {}
            cluster = _cluster(spec["cluster"]) if spec.get("cluster") else None
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
            raise CredentialError(f"{EXEC_INFO} is not an ExecCredential") from None
        if version not in VERSIONS:
            raise CredentialError(
                f"apiVersion {version!r} is not supported; set it to {VERSIONS[0]} in the kubeconfig"
            )
        return cls(version, bool(spec.get("interactive")), cluster)

    def prompt(self, text: str, *, hide_input: bool = False, advice: str = "") -> str:
        """Ask the user for a value in the terminal; raise `CredentialError` without a terminal.

        `advice` is the end of that message, such as `run example-login first`.
        """
        if not self.interactive:
            hint = (
                advice or "run the command in a terminal, with interactiveMode IfAvailable in the kubeconfig"
            )
            raise CredentialError(f"{text} is required and there is no terminal; {hint}")
        return str(click.prompt(text, hide_input=hide_input, err=True))


@dataclass(frozen=True)
class Credential:
    """A bearer token, or a client certificate with its key, or both; certificate and key in PEM."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)
    expires: datetime | None = None
    """When the client has to run the plug-in again; `None`: when the API server rejects the credential."""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("a client certificate requires its key, and the reverse")
        if not self.token and not self.certificate:
            raise ValueError("a credential requires a token or a client certificate")
        if self.expires is not None and self.expires.tzinfo is None:
            raise ValueError("the expiry requires a time zone: datetime.now(UTC) + timedelta(hours=1)")

    def to_exec_credential(self, api_version: str) -> dict[str, Any]:
        """Return the `ExecCredential` that a client reads."""
        status = {
            "expirationTimestamp": format_time(self.expires) if self.expires is not None else "",
            "token": self.token,
            "clientCertificateData": self.certificate,
            "clientKeyData": self.key,
        }
        return {
            "apiVersion": api_version,
            "kind": "ExecCredential",
            "status": {name: value for name, value in status.items() if value},
        }


class CredentialCache:
    """A credential that is stored in a file of the user until it expires.

    The file is in `~/.kube/cache/<name>` and can only be read by the user. Its name is a digest of `keys`:
    what distinguishes credentials, such as the URL of the service and the name of the user.
    """

    def __init__(
        self,
        name: str,
        *keys: str,
        directory: str | os.PathLike[str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        root = Path(directory) if directory is not None else Path.home() / ".kube" / "cache"
        digest = hashlib.sha256("\0".join(keys).encode()).hexdigest()[:32]
        self.path = root / name / f"{digest}.json"
        self._now = now

    def get(self) -> Credential | None:
        """Return the stored credential, unless it expires within 30 seconds."""
        try:
            status = json.loads(self.path.read_bytes())["status"]
            expires = parse_time(status["expirationTimestamp"])
            found = Credential(
                token=status.get("token", ""),
                certificate=status.get("clientCertificateData", ""),
                key=status.get("clientKeyData", ""),
                expires=expires,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return found if self._now() < expires - EARLY else None

    def store(self, credential: Credential) -> Credential:
        """Store a credential that has an expiry, and return it."""
        if credential.expires is not None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(credential.to_exec_credential(VERSIONS[0]), file)
            temporary.replace(self.path)
        return credential

    def clear(self) -> None:
        """Delete the stored credential."""
        with suppress(FileNotFoundError):
            self.path.unlink()


class CredentialPlugin(click.Command):
    """A click command that is a credential plug-in.

    Its function gets a `CredentialRequest` as `request`, and returns the `Credential` to print.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", {}).setdefault("help_option_names", ["-h", "--help"])
        super().__init__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> None:
        """Run the function and print the credential."""
        request = ctx.params["request"] = CredentialRequest.from_environment()
        credential = super().invoke(ctx)
        if not isinstance(credential, Credential):
            raise TypeError(f"{self.name} must return a Credential, not {type(credential).__name__}")
        click.echo(json.dumps(credential.to_exec_credential(request.api_version)))


def _cluster(data: Mapping[str, Any]) -> ClusterInfo:
    return ClusterInfo(
        server=data["server"],
        tls_server_name=data.get("tls-server-name") or "",
        insecure_skip_tls_verify=bool(data.get("insecure-skip-tls-verify")),
        certificate_authority_data=base64.b64decode(data.get("certificate-authority-data") or ""),
        proxy_url=data.get("proxy-url") or "",
        disable_compression=bool(data.get("disable-compression")),
        config=data.get("config"),
    )
