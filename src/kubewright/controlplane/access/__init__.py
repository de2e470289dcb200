"""Authorization from stored objects: RBAC, kubelets, access reviews.

`RuleResolver` indexes bindings by subject and `RBACAuthorizer` authorizes requests with it; `NodeAuthorizer`
authorizes kubelets; `read_authorization_settings` returns the modes in order, with webhooks
(`webhook_authorizer`) of an `AuthorizationConfiguration` file (`authorization_config`), and `Authorization`
creates the authorizers of them. `EscalationCheck`
rejects roles and bindings that grant more than their author has, `ClaimStatusCheck` changes of the status of
ResourceClaims. `AccessReviews` serves the review kinds.

- `claim_status`: granular authorization of the status of ResourceClaims
- `escalation`: privilege escalation prevention: users can grant only permissions that they have
- `node_authorizer`: what kubelets can read and write
- `reviews`: SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and SelfSubjectRulesReview
- `rule_resolver`: RBAC rules of a user, from the informers of Roles and Bindings
- `settings`: which authorizers a control plane uses, in order: modes and webhooks
"""

from __future__ import annotations

from .claim_status import ClaimStatusCheck
from .escalation import EscalationCheck
from .node_authorizer import NodeAuthorizer
from .reviews import AccessReviews
from .rule_resolver import RBACAuthorizer, RuleResolver
from .settings import (
    AlwaysDeny,
    Authorization,
    AuthorizationSettings,
    parse_modes,
    read_authorization_settings,
)

__all__ = [
    "AccessReviews",
    "AlwaysDeny",
    "Authorization",
    "AuthorizationSettings",
    "ClaimStatusCheck",
    "EscalationCheck",
    "NodeAuthorizer",
    "RBACAuthorizer",
    "RuleResolver",
    "parse_modes",
    "read_authorization_settings",
]
