"""Connections to PostgreSQL: settings of a session, retries and errors.

A request runs on an idle connection, or on a new one up to a limit. Reads are repeated on another connection
until the timeout; a write only if it was certainly not applied: because it was not sent, or because the
server has reported an error. A connection whose state is not known is closed.

Opening a connection is not part of a request: it continues after the timeout of the request that needed it,
and another request uses the connection. Otherwise a server that is so busy that connecting takes longer than
a request may would never serve one again: every attempt would begin anew, and add to its load.
"""

from __future__ import annotations

import asyncio
import math
import random
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from kubewright.storage.contract import StorageError, StorageUnavailable

from .options import PostgreSQLOptions

MINIMUM_VERSION = (13, 0)

_SESSION = """
    SET default_transaction_isolation = 'read committed';
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET max_parallel_workers_per_gather = 0;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SET client_min_messages = error;
    SET statement_timeout = {timeout};
    SET lock_timeout = {timeout};
    SET idle_in_transaction_session_timeout = {timeout};
    SET tcp_keepalives_idle = {seconds};
    SET tcp_keepalives_interval = {seconds};
    SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false)
     WHERE current_setting('synchronous_commit') = 'off';
"""
"""Settings of a session.

Every statement reads an index in its order, also while the tables are small: a plan that was cached then
would be slow for large tables. Writes are durable when they are acknowledged, whatever the default of the
database is. A session whose client is paused or unreachable does not keep its locks: the server ends it.
"""

_ENDED = ("08", "25P03", "25P04", "57P")
"""Errors after which the connection is closed: connection exception, timeout of a transaction, shutdown,
perhaps after the commit."""

_CONNECT_TIMEOUTS = 4
"""Maximum time to open a connection, in timeouts of a request."""

_Result = TypeVar("_Result")


def load_asyncpg() -> Any:
    """Import the client library."""
    try:
        import asyncpg
    except ImportError as error:
        raise StorageError(
            "storage in PostgreSQL needs asyncpg: pip install 'kubewright[postgresql]'"
        ) from error
    return asyncpg


def backoff(failures: int) -> float:
    """Return the delay after a number of failures in seconds, with jitter."""
    return float(min(2.0, 0.02 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0))  # noqa: S311


class PostgreSQLConnections:
    """Connections to one database."""

    def __init__(self, options: PostgreSQLOptions) -> None:
        self.options = options
        self.asyncpg: Any = None
        self._idle: list[Any] = []
        self._used: set[Any] = set()
        self._attempts: set[asyncio.Task[None]] = set()
        """Connections that are being opened."""
        self._waiting: deque[asyncio.Future[Any]] = deque()
        """Requests that wait for one of these."""
        self._responded = 0.0
        """Time of the last response."""
        self._slots = asyncio.Semaphore(options.connections)
        self._is_open = False

    def open(self) -> None:
        """Allow requests; connections are opened when they are needed."""
        self.asyncpg = load_asyncpg()
        self._is_open = True

    async def close(self) -> None:
        """Close all connections."""
        self._is_open = False
        for attempt in self._attempts:
            attempt.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        idle, self._idle = self._idle, []
        for connection in self._used:
            connection.terminate()
        for connection in idle:
            try:
                await connection.close(timeout=1)
            except (OSError, TimeoutError, self.asyncpg.PostgresError, self.asyncpg.InterfaceError):
                connection.terminate()

    async def fetch(self, statement: str, *arguments: Any) -> Sequence[Any]:
        """Return the rows of a statement that can be repeated."""
        rows: Sequence[Any] = await self.run(
            lambda connection: connection.fetch(statement, *arguments), repeat=True
        )
        return rows

    async def fetchval(self, statement: str, *arguments: Any, repeat: bool = True) -> Any:
        """Return the first column of the first row; `repeat`: whether the statement can be repeated."""
        return await self.run(lambda connection: connection.fetchval(statement, *arguments), repeat=repeat)

    async def run(
        self, request: Callable[[Any], Awaitable[_Result]], *, repeat: bool, first: bool = False
    ) -> _Result:
        """Call a function with a connection; `repeat`: whether it can be called twice.

        The `first` request waits for the first connection as long as it may take.
        """
        deadline = limit = time.monotonic() + self.options.timeout
        if first:
            limit += self.options.timeout * (_CONNECT_TIMEOUTS - 1)
        failures = 0
        reason: Exception | None = None
        while True:
            sent = False
            try:
                async with asyncio.timeout(limit - time.monotonic()), self._slots:
                    connection = await self._take()
                    begun = time.monotonic()
                    if limit - begun < self.options.timeout / 4:
                        # There was no connection for long. This one serves the next request.
                        self._give_back(connection)
                        raise TimeoutError
                    sent = True
                    result = await request(connection)
                self._responded = time.monotonic()
                self._give_back(connection)
                return result
            except Exception as error:
                if sent and self._is_rejection(error):
                    self._responded = time.monotonic()
                    self._give_back(connection)
                    raise self.explain(error, sent=False) from error
                if sent:
                    self._discard(connection)
                    if isinstance(error, TimeoutError):
                        self.discard_idle(begun)
                    if not repeat:
                        raise self.explain(error, sent=True) from error
                if reason is None or not isinstance(error, TimeoutError):
                    reason = error  # More useful than that the last of several attempts has timed out.
                failures += 1
                pause = backoff(failures)
                end = limit if isinstance(error, TimeoutError) else deadline
                if not self._is_transient(error) or time.monotonic() + pause >= end:
                    raise self.explain(reason, sent=False) from error
            except BaseException:
                if sent:
                    self._discard(connection)
                raise
            await asyncio.sleep(pause)

    async def _take(self) -> Any:
        if not self._is_open:
            raise StorageError("storage is not open")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                break
        else:
            connection = await self._wait_for_connection()
        self._used.add(connection)
        return connection

    async def _wait_for_connection(self) -> Any:
        """Open a connection, and return it or another one that is available earlier."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if len(self._attempts) < self.options.connections:
            attempt = asyncio.create_task(self._open_for(waiter), name="postgresql connect")
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)
        try:
            return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    async def _open_for(self, waiter: asyncio.Future[Any]) -> None:
        try:
            connection = await self.connect()
        except Exception as error:
            # Instead of a request that has timed out, another one tries again.
            for each in (waiter, *self._waiting):
                if not each.done():
                    each.set_exception(error)
                    break
        else:
            self._offer(connection)

    def _offer(self, connection: Any) -> None:
        """Let the next request that waits have a connection, or a later one."""
        while self._waiting and not connection.is_closed():
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if self._is_open and len(self._idle) + len(self._used) < self.options.connections:
            self._idle.append(connection)
        else:
            connection.terminate()

    def _give_back(self, connection: Any) -> None:
        self._used.discard(connection)
        if not connection.is_closed():
            self._offer(connection)

    def _discard(self, connection: Any) -> None:
        self._used.discard(connection)
        connection.terminate()

    def discard_idle(self, since: float) -> None:
        """Close idle connections if there was no response since a request that has timed out was sent.

        The server may be unreachable through all of them. If it has responded, it is only slow.
        """
        if self._responded < since:
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.terminate()

    async def connect(self) -> Any:
        """Open a connection to the server that accepts writes; the caller closes it."""
        timeout = self.options.timeout
        limit = timeout * _CONNECT_TIMEOUTS
        async with asyncio.timeout(limit):
            connection = await self.asyncpg.connect(**self.options.arguments() | {"timeout": limit})
            try:
                version = connection.get_server_version()
                if (version.major, version.minor) < MINIMUM_VERSION:
                    raise StorageError(
                        f"PostgreSQL at {self.options.where} has version {version.major}.{version.minor}; "
                        f"{MINIMUM_VERSION[0]} or newer is needed"
                    )
                settings = _SESSION.format(
                    timeout=max(100, int(timeout * 900)), seconds=max(1, math.ceil(timeout))
                )
                await connection.execute(settings)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def _is_rejection(self, error: Exception) -> bool:
        """Whether the server has rejected a statement, and the connection can be used again."""
        return isinstance(error, self.asyncpg.PostgresError) and not (error.sqlstate or "08").startswith(
            _ENDED
        )

    def _is_transient(self, error: Exception) -> bool:
        """Whether another attempt can succeed."""
        errors = self.asyncpg
        if isinstance(error, errors.PostgresError):
            # Insufficient resources, operator intervention (starting up, shutdown).
            return (error.sqlstate or "").startswith((*_ENDED, "53", "57"))
        if isinstance(error, errors.InterfaceError):
            return "closed" in str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return False
        return isinstance(error, OSError | TimeoutError | errors.TargetServerAttributeNotMatched)

    def explain(self, error: Exception, *, sent: bool) -> Exception:
        """Return the error for an error of asyncpg; `sent`: whether a write may have been applied."""
        if isinstance(error, StorageError):
            return error
        errors = self.asyncpg
        user = self.options.user or "the user"
        text = str(error).splitlines()[0] if str(error) else "timeout"
        if sent:
            hint = "the response to a write was lost; it may or may not have been applied"
        elif isinstance(error, errors.InvalidPasswordError | errors.InvalidAuthorizationSpecificationError):
            hint = "check the user, its password (password_file, password_env, PGPASSWORD) and pg_hba.conf"
        elif isinstance(error, errors.InvalidCatalogNameError):
            hint = f"create it with: createdb {self.options.database}"
        elif isinstance(error, errors.InsufficientPrivilegeError):
            hint = (
                f"create the schema with: CREATE SCHEMA {self.options.schema} AUTHORIZATION {user}, "
                f"or grant {user} CREATE on the database"
            )
        elif isinstance(error, errors.TargetServerAttributeNotMatched | errors.ReadOnlySQLTransactionError):
            text, hint = (
                "the server is read-only",
                "connect to the primary, or list the addresses of all servers",
            )
        elif isinstance(error, errors.DiskFullError):
            hint = "free space on the disk of the server"
        elif isinstance(error, errors.UndefinedTableError | errors.InvalidSchemaNameError):
            hint = f"the schema {self.options.schema} was deleted; restore it, or restart to create it"
        elif isinstance(error, errors.LockNotAvailableError | errors.QueryCanceledError | TimeoutError):
            hint = "check that the server is reachable and not overloaded"
        elif isinstance(error, errors.ClientConfigurationError):
            hint = "check the options of the storage URL"
        elif isinstance(error, OSError | errors.PostgresConnectionError | errors.CannotConnectNowError):
            hint = "check that it is running, and the TLS options"
        else:
            hint = ""
        kind = StorageUnavailable if self._is_transient(error) else StorageError
        return kind(f"PostgreSQL at {self.options.where}: {text}" + (f" ({hint})" if hint else ""))
