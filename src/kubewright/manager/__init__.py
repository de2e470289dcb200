"""The process of an operator: start and stop, leadership, events, probes, metrics.

- `manager`: `Manager`, what starts when and what stops when; `cluster`: a client and its cache
- `leader_election`: one leader among replicas
- `events`, `probes`, `http`, `logs`: what the process tells people and machines
- `operator`: `Operator`, the short form; `assembly` makes a manager of it; `context`, `injection`,
  `settings`, `permissions`, `installation`; `console`: a live view of a running one
"""

from .cluster import Cluster
from .context import Context, ObjectLogger
from .events import EventRecorder
from .injection import InjectionError
from .installation import InstallationError
from .leader_election import LeaderElector, LeadershipLost
from .manager import Manager, ManagerStopped, Runnable, ShutdownTimeout
from .operator import Operator
from .probes import Probes
from .settings import Settings, SettingsError

__all__ = [
    "Cluster",
    "Context",
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
]
