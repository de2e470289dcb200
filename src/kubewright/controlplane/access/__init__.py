"""Who may do what: RBAC over the Role and Binding objects that are stored, and the questions about it.

`RuleResolver` keeps the objects indexed by subject as they change. `RBACAuthorizer` answers requests with it,
`EscalationCheck` refuses to let anybody grant more than they have, `AccessReviews` answers the review kinds.
"""

from __future__ import annotations

from .escalation import EscalationCheck
from .reviews import AccessReviews
from .rule_resolver import RBACAuthorizer, RuleResolver

__all__ = ["AccessReviews", "EscalationCheck", "RBACAuthorizer", "RuleResolver"]
