from .app import APIServerApp as APIServerApp
from .reader import ObjectReader as ObjectReader
from .runtime import RunningAPIServer as RunningAPIServer
from .runtime import serve_app as serve_app
from .settings import APIServerSettings as APIServerSettings
