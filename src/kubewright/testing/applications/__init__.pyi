from .application import CallFailed as CallFailed
from .application import FakeApplication as FakeApplication
from .application import FakeCall as FakeCall
from .application import FakeReplica as FakeReplica
from .http import FakeHTTP as FakeHTTP
from .http import FakeRequest as FakeRequest
from .sql import FakeSQL as FakeSQL
