"""The process of an operator: lifecycle, leader election, events, probes, metrics, and `Operator`.

    operator = Operator("shop")

    @operator.reconcile(Shop, owns=(Deployment,))
    async def reconcile(shop: Shop, ctx: Context) -> None: ...

- `manager`: `Manager`, which starts and stops components; `cluster`: client and cache; `signals`
- `leader_election`: leader election with a Lease; `coordinated_election`: with LeaseCandidates
- `events`: event recorder; `probes`, `http`: health probes and metrics server; `logs`: log formatting
- `operator`: `Operator`; `declared_functions`, `registration`, `injection`: its decorated functions;
  `operator_runtime`, `operator_webhooks`: the manager and the webhook server that are built from it
- `context`: `Context`; `sync_context`: `SyncContext` for plain functions; `unawaited`: calls without await
- `change_handlers`: handlers for changes with old and new state; `failure_events`: events about errors
- `services`: objects of the program that functions receive by type
- `settings`: `Settings`; `rbac`: the RBAC rules that an operator requires
- `installation`: CRDs and webhook configurations during development
- `tracing`: OpenTelemetry spans; `console`: live view of a running operator in a terminal
"""

from kubewright.controller.manager_protocol import Runnable

from .change_handlers import Diff, DiffItem
from .cluster import Cluster
from .context import Context, ObjectLogger
from .coordinated_election import CoordinatedLeaderElector
from .events import EventRecorder
from .injection import InjectionError
from .installation import InstallationError
from .leader_election import LeaderElector, LeadershipLost
from .manager import Manager, ManagerStopped, ShutdownTimeout
from .operator import Operator
from .probes import Probes
from .settings import Settings, SettingsError
from .sync_context import SyncCachedClient, SyncContext
from .unawaited import UnawaitedCoroutineError

__all__ = [
    "Cluster",
    "Context",
    "CoordinatedLeaderElector",
    "Diff",
    "DiffItem",
    "EventRecorder",
    "InjectionError",
    "InstallationError",
    "LeaderElector",
    "LeadershipLost",
    "Manager",
    "ManagerStopped",
    "ObjectLogger",
    "Operator",
    "Probes",
    "Runnable",
    "Settings",
    "SettingsError",
    "ShutdownTimeout",
    "SyncCachedClient",
    "SyncContext",
    "UnawaitedCoroutineError",
]
