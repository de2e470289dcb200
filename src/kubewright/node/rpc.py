"""gRPC over unix sockets with the messages of this package: no generated code and no protobuf runtime.

    REGISTRATION = Service("v1beta1.Registration", Method("Register", RegisterRequest, Empty))

    server = UnixServer(path)
    server.add(REGISTRATION, implementation)      # calls `await implementation.register(request)`
    await server.start()

    async with Channel(path) as channel:
        await channel.call(REGISTRATION["Register"], RegisterRequest(...))

An implementation has a method in snake case per call: a coroutine function, or an async generator for a
stream of responses. Calls without a method are UNIMPLEMENTED. The only module that imports `grpc`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar, cast

from .errors import RPCError, as_rpc_error
from .messages import Message

# Processes that this one starts execute another program: handlers of fork only print warnings.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

try:
    import grpc
    import grpc.aio
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ImportError(
        "device plug-ins and CSI drivers require grpcio; install it with: pip install 'kubewright[node]'"
    ) from error

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

MAX_PATH: Final = 107
"""Longest path of a unix socket on Linux, in bytes."""
STOP_SECONDS: Final = 1.0
"""Time that calls in progress have when a server stops."""
_OPTIONS: Final = (
    # The default is the path of the socket, which servers written in Go reject.
    ("grpc.default_authority", "localhost"),
    # Otherwise a new channel waits for the back-off of an older one to a socket of the same path.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class Method(Generic[RequestT, ResponseT]):
    """One call of a service."""

    def __init__(
        self, name: str, request: type[RequestT], response: type[ResponseT], *, streams: bool = False
    ) -> None:
        """`streams`: whether the server sends a stream of responses."""
        self.name = name
        self.request = request
        self.response = response
        self.streams = streams
        self.path = ""
        """Path of the HTTP/2 request; set by the service."""

    @property
    def attribute(self) -> str:
        """Name of the Python method that implements the call."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()


class Service:
    """A gRPC service: its full name and its methods."""

    def __init__(self, name: str, *methods: Method[Any, Any]) -> None:
        self.name = name
        self.methods = {method.name: method for method in methods}
        for method in methods:
            method.path = f"/{name}/{method.name}"


class UnixServer:
    """A gRPC server on a unix socket. A stale socket of the same path is replaced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_socket_path(path)
        self._handlers: list[Any] = []
        self._server: Any = None

    def add(self, service: Service, implementation: object) -> None:
        """Serve the calls of a service that an object implements."""
        handlers = {}
        for method in service.methods.values():
            function = getattr(implementation, method.attribute, None)
            if function is None:
                continue
            make = (
                grpc.unary_stream_rpc_method_handler
                if method.streams
                else grpc.unary_unary_rpc_method_handler
            )
            wrapped = _stream(method, function) if method.streams else _call(method, function)
            handlers[method.name] = make(
                wrapped, request_deserializer=method.request.decode, response_serializer=Message.encode
            )
        self._handlers.append(grpc.method_handlers_generic_handler(service.name, handlers))

    async def start(self) -> None:
        """Listen; raise `OSError` if that is not possible."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self._remove_socket()
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(tuple(self._handlers))
        try:
            self._server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self.path}: {error}") from None
        await self._server.start()

    async def stop(self, grace: float = STOP_SECONDS) -> None:
        """Stop, after at most `grace` seconds for calls in progress, and remove the socket."""
        # Released here: the destructor of a server needs its event loop.
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace)
        self._remove_socket()

    def _remove_socket(self) -> None:
        Path(self.path).unlink(missing_ok=True)


def _call(method: Method[Any, Any], function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    async def handle(request: Message, context: Any) -> Message:
        try:
            return cast(Message, await function(request))
        except Exception as error:
            await _abort(method, context, error)
            raise

    return handle


def _stream(method: Method[Any, Any], function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    async def handle(request: Message, context: Any) -> AsyncIterator[Message]:
        try:
            async for response in function(request):
                yield response
        except Exception as error:
            await _abort(method, context, error)
            raise

    return handle


async def _abort(method: Method[Any, Any], context: Any, error: Exception) -> None:
    """Send an error as the status of a call. Raises the exception that ends the call."""
    found = as_rpc_error(error)
    if found is not error and found.code == "INTERNAL":
        logger.error("gRPC call failed", extra={"method": method.path}, exc_info=error)
    await context.abort(grpc.StatusCode[found.code], found.message)


class Channel:
    """A connection to a gRPC server on a unix socket. Use it with `async with`, or `close()`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_socket_path(path)
        self._channel = grpc.aio.insecure_channel(f"unix:{self.path}", options=_OPTIONS)

    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout: float | None = None
    ) -> ResponseT:
        """Call a method; raise `RPCError`."""
        call = self._channel.unary_unary(
            method.path, request_serializer=Message.encode, response_deserializer=method.response.decode
        )
        try:
            return cast(ResponseT, await call(request, timeout=timeout))
        except grpc.aio.AioRpcError as error:
            raise _error(error) from None

    async def stream(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncIterator[ResponseT]:
        """Call a method that sends a stream of responses; raise `RPCError`."""
        call = self._channel.unary_stream(
            method.path, request_serializer=Message.encode, response_deserializer=method.response.decode
        )(request)
        try:
            async for response in call:
                yield cast(ResponseT, response)
        except grpc.aio.AioRpcError as error:
            raise _error(error) from None
        finally:
            call.cancel()

    async def wait_until_ready(self, timeout: float) -> None:
        """Wait for the connection; raise `TimeoutError`."""
        async with asyncio.timeout(timeout):
            await self._channel.channel_ready()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _error(error: Any) -> RPCError:
    return RPCError.of_code(error.code().name, error.details() or "")


def check_socket_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a socket; raise `ValueError` if it is too long for one."""
    text = os.path.abspath(path)
    if len(os.fsencode(text)) > MAX_PATH:
        raise ValueError(
            f"{text} has {len(os.fsencode(text))} bytes, but paths of sockets have at most {MAX_PATH}; "
            "choose a shorter directory"
        )
    return text
