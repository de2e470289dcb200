from .api import Column as Column
from .api import Condition as Condition
from .api import CustomResource as CustomResource
from .api import FieldError as FieldError
from .api import ObjectMeta as ObjectMeta
from .api import Quantity as Quantity
from .api import Spec as Spec
from .api import Status as Status
from .api import Unstructured as Unstructured
from .api import partial as partial
from .api import resource as resource
from .api import set_condition as set_condition
from .client import Client as Client
from .client import SyncClient as SyncClient
from .controller import Request as Request
from .controller import Result as Result
from .controller import TemporaryError as TemporaryError
from .controller import TerminalError as TerminalError
from .controlplane import ControlPlane as ControlPlane
from .extension import APIServerApp as APIServerApp
from .manager import Context as Context
from .manager import Manager as Manager
from .manager import Operator as Operator
from .manager import SyncContext as SyncContext
from .webhook import Converter as Converter
from .webhook import Denied as Denied

__version__: str
