from .component_manager import ComponentManager as ComponentManager
from .connection import ClientConnection as ClientConnection
from .connection import ClusterConnection as ClusterConnection
from .connection import RequestSender as RequestSender
from .controllers import COMPONENTS as COMPONENTS
from .controllers import Component as Component
from .workloads import Workloads as Workloads
