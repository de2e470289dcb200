"""How an operator runs: everything that differs between a laptop and a cluster.

`kubewright run` fills it from flags, and `from_environment` from variables named `KUBEWRIGHT_<FIELD>`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from kubewright.cache import KindOptions
from kubewright.client.kind_types import AnyKind


class SettingsError(ValueError):
    """A setting that is missing or wrong; the message names it and says what to write."""


@dataclass(slots=True, kw_only=True)
class Settings:
    """How an operator runs. Everything has a default."""

    namespaces: Sequence[str] | None = None
    """Work in these namespaces only; `None` means all."""
    development: bool = False
    """Install definitions at start, and serve webhooks on this machine with certificates made at start."""
    leader_election: bool = False
    leader_election_namespace: str = ""
    """Where the lease is; by default the namespace of the pod."""
    leader_election_name: str = ""
    """What the lease is called; by default as the operator."""
    lease_duration: float = 15.0
    """Seconds until others may take over from a leader that is silent."""
    renew_deadline: float = 10.0
    """Seconds after which a leader that could not renew its lease stops."""
    retry_period: float = 2.0
    """Seconds between attempts to take or renew the lease."""
    grace: float = 30.0
    """Seconds that reconciles have to finish when the process stops."""
    probe_port: int | None = None
    """Serve `/healthz` and `/readyz` here; `None` means not at all."""
    metrics_port: int | None = None
    """Serve `/metrics` here; `None` means not at all."""
    metrics_secure: bool = True
    """Metrics over TLS, and only for those whom the API server lets read them."""
    metrics_certificates: str = ""
    """A directory with `tls.crt` and `tls.key` for metrics; empty: made at start."""
    webhook_host: str = ""
    """Serve webhooks on this address; by default of this machine in development, on all otherwise."""
    webhook_port: int = 0
    """Serve webhooks here; by default on a free port in development, on 9443 otherwise."""
    webhook_certificates: str = ""
    """A directory with `tls.crt` and `tls.key` (cert-manager mounts one); empty: managed in a Secret."""
    webhook_secret: str = ""
    """The Secret of managed certificates; by default `<operator>-webhook-certificates`."""
    webhook_service: str = ""
    """The Service in front of the webhooks, for the names in managed certificates."""
    kinds: dict[Any, KindOptions] = field(default_factory=dict)
    """What to keep of single kinds; see `Cache`."""
    allow: Sequence[AnyKind] = ()
    """Kinds to keep whole even if they are Secrets or ConfigMaps."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Settings from variables such as `KUBEWRIGHT_LEADER_ELECTION=true`; others keep their defaults."""
        settings = cls()
        settings.take(environ)
        return settings

    def take(self, environ: Mapping[str, str] = os.environ) -> None:
        """Change what variables name; see `from_environment`."""
        for each in fields(self):
            text = environ.get(f"KUBEWRIGHT_{each.name.upper()}")
            if text is not None:
                setattr(self, each.name, _parsed(each.name, str(each.type), text))


def _parsed(name: str, of: str, text: str) -> Any:
    variable = f"KUBEWRIGHT_{name.upper()}"
    if of == "bool":
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise SettingsError(f"{variable}={text!r}: write true or false")
        return text.lower() in ("true", "1", "yes")
    if of.startswith("int"):
        try:
            return int(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: write a whole number") from None
    if of == "float":
        try:
            return float(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: write a number of seconds") from None
    if of == "str":
        return text
    if name == "namespaces":
        return tuple(part.strip() for part in text.split(",") if part.strip()) or None
    raise SettingsError(f"{variable} cannot be given as text; set Settings.{name} in the program")
