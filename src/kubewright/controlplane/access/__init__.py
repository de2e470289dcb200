"""RBAC authorization from the stored roles and bindings, and access reviews.

`RuleResolver` indexes bindings by subject and `RBACAuthorizer` authorizes requests with it. `EscalationCheck`
rejects roles and bindings that grant more than their author has. `AccessReviews` serves the review kinds.
"""

from __future__ import annotations

from .escalation import EscalationCheck
from .reviews import AccessReviews
from .rule_resolver import RBACAuthorizer, RuleResolver

__all__ = ["AccessReviews", "EscalationCheck", "RBACAuthorizer", "RuleResolver"]
