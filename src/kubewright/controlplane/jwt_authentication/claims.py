"""Rules on the claims of a token, and the mapping of claims to a user.

A value comes from a claim, with a prefix, or from a CEL expression over `claims`. User rules are expressions
over `user`. Rules are compiled when the configuration is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubewright import cel
from kubewright.apiserver.authentication.user import User

Claims = dict[str, Any]


class ClaimError(Exception):
    """A token does not satisfy the rules; the message is for the log."""


@cache
def claims_environment() -> cel.Env:
    """Return the environment of expressions over `claims`."""
    return cel.Env({"claims": cel.map_type(cel.STRING, cel.DYN)})


@cache
def user_environment() -> cel.Env:
    """Return the environment of expressions over `user`."""
    text = cel.STRING
    fields = {
        "username": text,
        "uid": text,
        "groups": cel.list_type(text),
        "extra": cel.map_type(text, cel.list_type(text)),
    }
    return cel.Env({"user": cel.object_type("kubernetes.UserInfo", fields)})


@dataclass(frozen=True, slots=True)
class Rule:
    """An expression that must be true, and the message if it is not."""

    program: cel.Program
    message: str

    def check(self, variable: str, value: Any) -> None:
        """Raise `ClaimError` unless the expression is true."""
        if _evaluate(self.program, {variable: value}) is not True:
            raise ClaimError(self.message)


@dataclass(frozen=True, slots=True)
class RequiredClaim:
    """A claim that must have a value."""

    claim: str
    value: str

    def check(self, claims: Claims) -> None:
        """Raise `ClaimError` unless the claim has the value."""
        if self.claim not in claims:
            raise ClaimError(f"the required claim {self.claim} is missing")
        found = claims[self.claim]
        if found != self.value and not (isinstance(found, list) and self.value in found):
            raise ClaimError(f"the required claim {self.claim} has another value than {self.value!r}")


@dataclass(frozen=True, slots=True)
class ClaimValue:
    """A text or several, from a claim or from an expression."""

    claim: str = ""
    prefix: str = ""
    program: cel.Program | None = None

    def text(self, claims: Claims) -> str:
        """Return one text; raises `ClaimError`."""
        if self.program is not None:
            found = _evaluate(self.program, {"claims": claims})
        elif self.claim in claims:
            found = claims[self.claim]
        else:
            raise ClaimError(f"the claim {self.claim} is missing")
        if not isinstance(found, str):
            raise ClaimError(f"{self.claim or 'an expression'} is not a string")
        return self.prefix + found

    def texts(self, claims: Claims) -> tuple[str, ...]:
        """Return several texts; a missing claim has none. Raises `ClaimError`."""
        found = _evaluate(self.program, {"claims": claims}) if self.program else claims.get(self.claim)
        if found is None or found == "":
            return ()
        items = found if isinstance(found, list | tuple) else [found]
        if not all(isinstance(item, str) for item in items):
            raise ClaimError(f"{self.claim or 'an expression'} is not a string or a list of strings")
        return tuple(self.prefix + item for item in items if item or not self.program)


@dataclass(frozen=True, slots=True)
class ClaimMapping:
    """How the claims of a token become a user."""

    username: ClaimValue
    groups: ClaimValue | None
    uid: ClaimValue | None
    extra: Sequence[tuple[str, ClaimValue]]
    claim_rules: Sequence[Rule | RequiredClaim]
    user_rules: Sequence[Rule]

    def user(self, claims: Claims) -> User:
        """Return the user of a token; raises `ClaimError`."""
        if self.username.claim == "email" and claims.get("email_verified", True) is not True:
            raise ClaimError("the claim email is not verified")
        for rule in self.claim_rules:
            if isinstance(rule, Rule):
                rule.check("claims", claims)
            else:
                rule.check(claims)
        name = self.username.text(claims)
        if not name:
            raise ClaimError("the user name is empty")
        groups = self.groups.texts(claims) if self.groups is not None else ()
        uid = self.uid.text(claims) if self.uid is not None else ""
        extra = {key: values for key, value in self.extra if (values := value.texts(claims))}
        user = User(name, groups, uid, extra)
        if self.user_rules:
            info = user.to_info()
            shown = {"username": name, "uid": uid, "groups": list(groups), "extra": info.get("extra", {})}
            for rule in self.user_rules:
                rule.check("user", shown)
        return user


def _evaluate(program: cel.Program, variables: dict[str, Any]) -> Any:
    try:
        return program(variables, budget=cel.Budget())
    except cel.CelError as error:
        raise ClaimError(f"an expression failed: {error}") from None
