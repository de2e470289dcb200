from .operator_dashboard import OperatorDashboard as OperatorDashboard
from .operator_endpoint import OperatorEndpoint as OperatorEndpoint
from .remote_traces import RemoteTraces as RemoteTraces
from .server import ClusterName as ClusterName
from .server import Dashboard as Dashboard
from .server import DashboardError as DashboardError
from .traces import TraceStore as TraceStore
