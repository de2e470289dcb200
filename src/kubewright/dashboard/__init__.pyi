from .server import ClusterName as ClusterName
from .server import Dashboard as Dashboard
from .server import DashboardError as DashboardError
