"""The `AuthenticationConfiguration` file.

apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
  - issuer: {url: https://idp.example.com, audiences: [cluster]}
    claimValidationRules:
      - expression: claims.exp - claims.nbf <= 86400
        message: tokens must not live longer than a day
    claimMappings:
      username: {expression: "claims.sub"}
      groups: {claim: groups, prefix: "idp:"}
anonymous:
  enabled: true
  conditions: [{path: /healthz}]
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kubewright import cel
from kubewright.controlplane.configuration.config_file import (
    ConfigFileError,
    ConfigStruct,
    naming_file,
    read_config_file,
)

from .authenticator import ALGORITHMS, JWTAuthenticator
from .claims import ClaimMapping, ClaimValue, RequiredClaim, Rule, claims_environment, user_environment
from .issuer_keys import IssuerKeys

_KIND: Final = "AuthenticationConfiguration"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_MAX_ISSUERS: Final = 64


class _Issuer(ConfigStruct, frozen=True):
    url: str = ""
    discovery_url: str = msgspec.field(default="", name="discoveryURL")
    certificate_authority: str = ""
    audiences: list[str] = []
    audience_match_policy: str = ""
    egress_selector_type: str = ""


class _ClaimRule(ConfigStruct, frozen=True):
    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class _UserRule(ConfigStruct, frozen=True):
    expression: str = ""
    message: str = ""


class _Value(ConfigStruct, frozen=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class _UIDValue(ConfigStruct, frozen=True):
    claim: str = ""
    expression: str = ""


class _Extra(ConfigStruct, frozen=True):
    key: str = ""
    value_expression: str = ""


class _Mappings(ConfigStruct, frozen=True):
    username: _Value = _Value()
    groups: _Value = _Value()
    uid: _UIDValue = _UIDValue()
    extra: list[_Extra] = []


class _JWT(ConfigStruct, frozen=True):
    issuer: _Issuer = _Issuer()
    claim_validation_rules: list[_ClaimRule] = []
    claim_mappings: _Mappings = _Mappings()
    user_validation_rules: list[_UserRule] = []


class _Condition(ConfigStruct, frozen=True):
    path: str = ""


class _Anonymous(ConfigStruct, frozen=True):
    enabled: bool = False
    conditions: list[_Condition] = []


class _File(ConfigStruct, frozen=True):
    jwt: list[_JWT] = []
    anonymous: _Anonymous | None = None


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """What an authentication configuration declares."""

    authenticators: Sequence[JWTAuthenticator]
    anonymous: bool | None
    """Whether anonymous requests are allowed; `None` if the file does not say."""
    anonymous_paths: frozenset[str]
    """The only paths of anonymous requests; all if empty."""


def load_authentication_config(
    path: str | Path, disallowed_issuers: Sequence[str] = ()
) -> AuthenticationSettings:
    """Read a configuration file; raises `ConfigFileError`.

    `disallowed_issuers` are those of service account tokens.
    """
    file = read_config_file(path, _KIND, _File, _VERSIONS)
    with naming_file(path):
        return _settings(file, disallowed_issuers, ALGORITHMS)


def authentication_settings(
    issuers: Sequence[object], disallowed_issuers: Sequence[str], algorithms: Sequence[str]
) -> AuthenticationSettings:
    """Return the settings of the entries of `jwt` in a configuration; raises `ConfigFileError`."""
    return _settings(_File(jwt=msgspec.convert(issuers, list[_JWT])), disallowed_issuers, algorithms)


def _settings(
    file: _File, disallowed_issuers: Sequence[str], algorithms: Sequence[str]
) -> AuthenticationSettings:
    if len(file.jwt) > _MAX_ISSUERS:
        raise ConfigFileError(f"jwt: at most {_MAX_ISSUERS} issuers are possible")
    seen: list[str] = list(disallowed_issuers)
    authenticators = []
    for index, each in enumerate(file.jwt):
        authenticators.append(_authenticator(each, f"jwt[{index}]", seen, algorithms))
        seen.append(each.issuer.url)
    anonymous = file.anonymous
    if anonymous is not None and anonymous.conditions and not anonymous.enabled:
        raise ConfigFileError("anonymous.conditions: they require enabled: true")
    conditions = anonymous.conditions if anonymous is not None else []
    return AuthenticationSettings(
        authenticators,
        anonymous.enabled if anonymous is not None else None,
        frozenset(condition.path for condition in conditions),
    )


def _authenticator(
    declared: _JWT, at: str, seen: Sequence[str], algorithms: Sequence[str]
) -> JWTAuthenticator:
    issuer = declared.issuer
    _check_issuer(issuer, f"{at}.issuer", seen)
    mapping = _mapping(declared, at)
    try:
        keys = IssuerKeys(
            issuer.url, discovery_url=issuer.discovery_url, authority=issuer.certificate_authority
        )
    except ssl.SSLError as error:
        raise ConfigFileError(f"{at}.issuer.certificateAuthority: not a PEM certificate: {error}") from None
    return JWTAuthenticator(keys, issuer.audiences, mapping, algorithms)


def _check_issuer(issuer: _Issuer, at: str, seen: Sequence[str]) -> None:
    _check_url(issuer.url, f"{at}.url")
    if issuer.url in seen:
        raise ConfigFileError(f"{at}.url: {issuer.url!r} is the issuer of other tokens, too")
    if issuer.discovery_url:
        _check_url(issuer.discovery_url, f"{at}.discoveryURL")
        if issuer.discovery_url == issuer.url:
            raise ConfigFileError(f"{at}.discoveryURL: it must differ from url")
    if not issuer.audiences or not all(issuer.audiences):
        raise ConfigFileError(f"{at}.audiences: at least one audience is required, and none can be empty")
    if len(set(issuer.audiences)) != len(issuer.audiences):
        raise ConfigFileError(f"{at}.audiences: an audience is listed twice")
    expected = ("MatchAny",) if len(issuer.audiences) > 1 else ("", "MatchAny")
    if issuer.audience_match_policy not in expected:
        raise ConfigFileError(f"{at}.audienceMatchPolicy: it must be MatchAny")
    if issuer.egress_selector_type:
        raise ConfigFileError(f"{at}.egressSelectorType: egress selectors are not supported")


def _check_url(url: str, at: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigFileError(f"{at}: {url!r} is not an https URL")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigFileError(f"{at}: a URL without user, query and fragment is required")


def _mapping(declared: _JWT, at: str) -> ClaimMapping:
    mappings, here = declared.claim_mappings, f"{at}.claimMappings"
    username = _value(mappings.username, f"{here}.username")
    if username is None:
        raise ConfigFileError(f"{here}.username: a claim or an expression is required")
    rules: list[Rule | RequiredClaim] = []
    for index, rule in enumerate(declared.claim_validation_rules):
        rules.append(_claim_rule(rule, f"{at}.claimValidationRules[{index}]"))
    expression = mappings.username.expression
    written = expression + "".join(
        [
            *(rule.expression for rule in declared.claim_validation_rules),
            *(each.value_expression for each in mappings.extra),
        ]
    )
    if "claims.email" in expression.replace("claims.email_verified", "") and "email_verified" not in written:
        raise ConfigFileError(
            f"{here}.username.expression: claims.email requires claims.email_verified in the same "
            "expression, in an extra value or in a claim rule"
        )
    uid = _Value(mappings.uid.claim, "", mappings.uid.expression) if mappings.uid.claim else None
    if mappings.uid.expression:
        uid = _Value(mappings.uid.claim, None, mappings.uid.expression)
    return ClaimMapping(
        username,
        _value(mappings.groups, f"{here}.groups"),
        _value(uid, f"{here}.uid") if uid is not None else None,
        [_extra(each, f"{here}.extra[{index}]") for index, each in enumerate(mappings.extra)],
        rules,
        [
            Rule(
                _compiled(
                    user_environment(), rule.expression, f"{at}.userValidationRules[{index}]", cel.BOOL
                ),
                rule.message or f"the expression {rule.expression} is false",
            )
            for index, rule in enumerate(declared.user_validation_rules)
        ],
    )


def _claim_rule(rule: _ClaimRule, at: str) -> Rule | RequiredClaim:
    if bool(rule.claim) == bool(rule.expression):
        raise ConfigFileError(f"{at}: either claim or expression is required")
    if rule.claim:
        if rule.message:
            raise ConfigFileError(f"{at}.message: only rules with an expression have a message")
        return RequiredClaim(rule.claim, rule.required_value)
    if rule.required_value:
        raise ConfigFileError(f"{at}.requiredValue: only rules with a claim have a required value")
    program = _compiled(claims_environment(), rule.expression, at, cel.BOOL)
    return Rule(program, rule.message or f"the expression {rule.expression} is false")


def _value(value: _Value, at: str) -> ClaimValue | None:
    if not value.claim and not value.expression:
        if value.prefix is not None:
            raise ConfigFileError(f"{at}: a prefix requires a claim")
        return None
    if value.claim and value.expression:
        raise ConfigFileError(f"{at}: claim and expression cannot both be set")
    if value.expression:
        if value.prefix is not None:
            raise ConfigFileError(f"{at}.prefix: only claims have a prefix")
        return ClaimValue(program=_compiled(claims_environment(), value.expression, at))
    if value.prefix is None:
        raise ConfigFileError(f'{at}.prefix: a claim requires a prefix; use "" for none')
    return ClaimValue(value.claim, value.prefix)


def _extra(extra: _Extra, at: str) -> tuple[str, ClaimValue]:
    domain, slash, name = extra.key.partition("/")
    if not slash or not domain or not name or extra.key != extra.key.lower():
        raise ConfigFileError(f"{at}.key: {extra.key!r} is not a lower-case key such as example.com/tenant")
    if domain in ("k8s.io", "kubernetes.io") or domain.endswith((".k8s.io", ".kubernetes.io")):
        raise ConfigFileError(f"{at}.key: {domain} is reserved for Kubernetes")
    return extra.key, ClaimValue(program=_compiled(claims_environment(), extra.value_expression, at))


def _compiled(env: cel.Env, text: str, at: str, expected: cel.Type | None = None) -> cel.Program:
    if not text:
        raise ConfigFileError(f"{at}: an expression is required")
    try:
        checked = env.check(text, expected=expected) if expected is not None else env.check(text)
        return checked.compile()
    except (cel.CelCompileError, cel.CelResultError, cel.CelError) as error:
        raise ConfigFileError(f"{at}: {text}: {error}") from None
