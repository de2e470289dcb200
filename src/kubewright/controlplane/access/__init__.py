"""Who may do what: RBAC over the Role and Binding objects that are stored, and the questions about it.

`LiveRules` keeps the objects indexed by subject as they change. `RoleAuthorizer` answers requests with it,
`EscalationCheck` refuses to let anybody grant more than they have, `AccessReviews` answers the review kinds.
"""

from __future__ import annotations

from .escalation import EscalationCheck
from .live_rules import LiveRules, RoleAuthorizer
from .reviews import AccessReviews

__all__ = ["AccessReviews", "EscalationCheck", "LiveRules", "RoleAuthorizer"]
