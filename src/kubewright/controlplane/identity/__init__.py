"""Authentication, service account tokens and identity reviews.

`authentication` sets up the authenticators of a control plane: its own tokens and certificates, and those of
other issuers (`external_tokens`). `TokenIssuer` signs tokens and publishes its keys, `TokenRequests` serves
`serviceaccounts/token`, `token_invalidity` checks that the account and the bound object of a token exist,
`legacy_tokens` checks those of token secrets and records their use, and `IdentityReviews` serves TokenReview
and SelfSubjectReview.
"""

from __future__ import annotations

from .issuer import TokenIssuer
from .reviews import IdentityReviews
from .token_requests import TokenRequests, token_invalidity
from .tokenless import TokenlessAuthenticator

__all__ = ["IdentityReviews", "TokenIssuer", "TokenRequests", "TokenlessAuthenticator", "token_invalidity"]
