"""Who somebody is: service-account tokens and the kinds that ask about identity.

`TokenIssuer` signs tokens and publishes its keys, `TokenRequests` answers `serviceaccounts/token`,
`token_invalidity` says why a token counts no more (its account or what it is bound to is gone), and
`IdentityReviews` answers TokenReview and SelfSubjectReview.
"""

from __future__ import annotations

from .issuer import TokenIssuer
from .reviews import IdentityReviews
from .token_requests import TokenRequests, token_invalidity
from .tokenless import TokenlessAuthenticator

__all__ = ["IdentityReviews", "TokenIssuer", "TokenRequests", "TokenlessAuthenticator", "token_invalidity"]
