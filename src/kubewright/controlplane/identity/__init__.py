"""Authentication, service account tokens and identity reviews.

`authentication` sets up the authenticators of a control plane: its own tokens and certificates, and those of
other issuers. `TokenIssuer` signs tokens and publishes its keys, `TokenRequests` serves
`serviceaccounts/token`, `token_invalidity` checks that the account and the bound object of a token exist,
`legacy_tokens` checks those of token secrets and records their use, and `IdentityReviews` serves TokenReview
and SelfSubjectReview.

- `bootstrap_tokens`: credentials of machines that join a cluster, as `kubeadm token create`
  writes them
- `issuer`: signing of service account tokens, and OIDC discovery of the keys that verify them
- `reviews`: TokenReview and SelfSubjectReview
- `token_requests`: `serviceaccounts/<name>/token`: issue tokens on request, and check that they are still
  valid
"""

from __future__ import annotations

from .authentication import TokenlessAuthenticator as TokenlessAuthenticator
from .issuer import TokenIssuer as TokenIssuer
from .reviews import IdentityReviews as IdentityReviews
from .token_requests import TokenRequests as TokenRequests
from .token_requests import token_invalidity as token_invalidity
