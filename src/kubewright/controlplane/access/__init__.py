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

from .claim_status import ClaimStatusCheck as ClaimStatusCheck
from .escalation import EscalationCheck as EscalationCheck
from .node_authorizer import NodeAuthorizer as NodeAuthorizer
from .reviews import AccessReviews as AccessReviews
from .rule_resolver import RBACAuthorizer as RBACAuthorizer
from .rule_resolver import RuleResolver as RuleResolver
from .settings import AlwaysDeny as AlwaysDeny
from .settings import Authorization as Authorization
from .settings import AuthorizationSettings as AuthorizationSettings
from .settings import parse_modes as parse_modes
from .settings import read_authorization_settings as read_authorization_settings
