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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.options.kinds import FILE, LIST, TEXT, Kind
from kubewright.options.model import option
from kubewright.trusted_files import read_named_file

if TYPE_CHECKING:
    from .config import AuthenticationSettings

_NO_PREFIX: Final = "-"


def _claim(text: str) -> tuple[str, str]:
    claim, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"malformed pair {text!r}, expect string=string")
    return claim.strip(), value.strip()


CLAIMS: Final = Kind("array", "CLAIM=VALUE", "tenant=a,b", _claim, dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCOptions:
    """One issuer; the fields are the flags of kube-apiserver, with their defaults."""

    issuer_url: str = option(
        "", TEXT, "URL of an issuer of JSON web tokens (OpenID Connect).", "oidc-issuer-url"
    )
    client_id: str = option("", TEXT, "Audience of the tokens of --oidc-issuer-url.", "oidc-client-id")
    ca_file: str | Path | None = option(
        None, FILE, "CA bundle (PEM) for the certificate of the issuer.", "oidc-ca-file"
    )
    username_claim: str = option("sub", TEXT, "Claim with the user name.", "oidc-username-claim")
    username_prefix: str = option(
        "",
        TEXT,
        "Prefix of user names; - for none.",
        "oidc-username-prefix",
        is_rare=True,
        shown_default="the issuer and #, except for the claim email",
    )
    groups_claim: str = option("", TEXT, "Claim with the groups.", "oidc-groups-claim")
    groups_prefix: str = option("", TEXT, "Prefix of groups.", "oidc-groups-prefix", is_rare=True)
    required_claims: Mapping[str, str] | None = option(
        None, CLAIMS, "Claim that tokens must have; can be repeated.", "oidc-required-claim", is_rare=True
    )
    signing_algorithms: Sequence[str] = option(
        ("RS256",), LIST, "Signing algorithms of tokens.", "oidc-signing-algs", is_rare=True
    )

    def __post_init__(self) -> None:
        if not self.issuer_url or not self.client_id:
            raise ValueError(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
            )

    def settings(self, disallowed_issuers: Sequence[str] = ()) -> AuthenticationSettings:
        """Return the authenticator of the issuer; raises `ConfigFileError`, or `OSError` for the CA file."""
        from kubewright.controlplane.configuration.config_file import ConfigFileError

        from .authenticator import ALGORITHMS
        from .config import authentication_settings

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
        rules = [
            {"claim": claim, "requiredValue": value} for claim, value in (self.required_claims or {}).items()
        ]
        return {"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}

    def _username_prefix(self) -> str:
        if self.username_prefix == _NO_PREFIX:
            return ""
        if not self.username_prefix and self.username_claim != "email":
            return f"{self.issuer_url}#"
        return self.username_prefix
