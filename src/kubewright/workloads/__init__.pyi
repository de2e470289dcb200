from .component_manager import ComponentManager as ComponentManager
from .connection import ClientConnection as ClientConnection
from .connection import ClusterConnection as ClusterConnection
from .controllers import COMPONENTS as COMPONENTS
from .controllers import Component as Component
from .pod_metrics import MetricsSource as MetricsSource
from .pod_metrics import SimulatedMetrics as SimulatedMetrics
from .workloads import Workloads as Workloads
