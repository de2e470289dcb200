from .operators.operator_dashboard import OperatorDashboard as OperatorDashboard
from .operators.operator_endpoint import OperatorEndpoint as OperatorEndpoint
from .operators.remote_traces import RemoteTraces as RemoteTraces
from .operators.traces import TraceStore as TraceStore
from .server import ClusterName as ClusterName
from .server import Dashboard as Dashboard
from .server import DashboardError as DashboardError
