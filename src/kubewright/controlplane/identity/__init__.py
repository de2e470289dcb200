"""Who somebody is: service-account tokens and the kinds that ask about identity.

`TokenIssuer` signs tokens and publishes its keys, `TokenRequests` answers `serviceaccounts/token`,
`bound_objects_exist` says whether a token's account (and what it is bound to) is still there, and
`IdentityReviews` answers TokenReview and SelfSubjectReview.
"""

from __future__ import annotations

from .explicit import UnlessToken
from .issuer import TokenIssuer
from .reviews import IdentityReviews
from .token_requests import TokenRequests, bound_objects_exist

__all__ = ["IdentityReviews", "TokenIssuer", "TokenRequests", "UnlessToken", "bound_objects_exist"]
