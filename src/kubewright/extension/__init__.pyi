from .app import APIServerApp as APIServerApp
from .reader import ObjectReader as ObjectReader
from .rest import Rest as Rest
from .runtime import RunningAPIServer as RunningAPIServer
from .runtime import serve_app as serve_app
from .settings import APIServerSettings as APIServerSettings
