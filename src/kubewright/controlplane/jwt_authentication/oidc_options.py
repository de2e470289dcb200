"""The `--oidc-*` flags of kube-apiserver: one issuer of tokens, without a configuration file.

They are translated to the entry of an `AuthenticationConfiguration`:

    --oidc-issuer-url=https://idp --oidc-client-id=cluster --oidc-groups-claim=groups

    jwt:
      - issuer: {url: https://idp, audiences: [cluster]}
        claimMappings:
          username: {claim: sub, prefix: "https://idp#"}
          groups: {claim: groups, prefix: ""}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubewright.controlplane.config_file import ConfigFileError
from kubewright.trusted_files import read_named_file

from .authenticator import ALGORITHMS
from .config import AuthenticationSettings, authentication_settings

_NO_PREFIX: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCOptions:
    """One issuer; the fields are the flags of kube-apiserver, with their defaults."""

    issuer_url: str
    client_id: str
    """The audience of tokens."""
    ca_file: str | Path | None = None
    username_claim: str = "sub"
    username_prefix: str = ""
    """By default the issuer and `#`, except for the claim `email`; `-` for no prefix."""
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = field(default_factory=dict)
    signing_algorithms: Sequence[str] = ("RS256",)

    def settings(self, disallowed_issuers: Sequence[str] = ()) -> AuthenticationSettings:
        """Return the authenticator of the issuer; raises `ConfigFileError`, or `OSError` for the CA file."""
        for name in self.signing_algorithms:
            if name not in ALGORITHMS:
                raise ConfigFileError(f'oidc: unsupported signing alg: "{name}"; use {", ".join(ALGORITHMS)}')
        try:
            return authentication_settings([self._entry()], disallowed_issuers, self.signing_algorithms)
        except ConfigFileError as error:
            raise ConfigFileError(f"--oidc-*: {error}") from None

    def _entry(self) -> dict[str, Any]:
        issuer: dict[str, Any] = {"url": self.issuer_url, "audiences": [self.client_id]}
        if self.ca_file:
            issuer["certificateAuthority"] = read_named_file(self.ca_file).decode()
        mappings = {"username": {"claim": self.username_claim, "prefix": self._username_prefix()}}
        if self.groups_claim:
            mappings["groups"] = {"claim": self.groups_claim, "prefix": self.groups_prefix}
        rules = [{"claim": claim, "requiredValue": value} for claim, value in self.required_claims.items()]
        return {"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}

    def _username_prefix(self) -> str:
        if self.username_prefix == _NO_PREFIX:
            return ""
        if not self.username_prefix and self.username_claim != "email":
            return f"{self.issuer_url}#"
        return self.username_prefix


__all__ = ["OIDCOptions"]
