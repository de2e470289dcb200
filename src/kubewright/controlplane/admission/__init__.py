"""The admission plug-ins of Kubernetes, one a file.

`default_plugins` makes them, `arranged` puts those that are on in their order. Each looks at live objects in
process: a policy or a quota works from the moment it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .live import Live
from .namespaces import NamespaceLifecycle
from .notice import NoticeWrites
from .order import OFF_BY_DEFAULT, ORDER, arranged

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionPlugin
    from kubewright.apiserver.server import APIServer


def default_plugins(server: APIServer, live: Live | None = None) -> list[AdmissionPlugin]:
    """The plug-ins that need nothing but the server (webhooks are not among them)."""
    from .mutating_policies import MutatingPolicies
    from .validating_policies import ValidatingPolicies

    live = live or Live(server)
    return [
        NoticeWrites(live),
        NamespaceLifecycle(live),
        MutatingPolicies(server, live),
        ValidatingPolicies(server, live),
    ]


__all__ = ["OFF_BY_DEFAULT", "ORDER", "Live", "NamespaceLifecycle", "arranged", "default_plugins"]
