"""An operator of a replicated database with fail-over.

Every ten seconds it asks each replica for its role and its position. The replica with the most writes must be
the primary: if the primary is unreachable, or has restarted without its data, another one is promoted. The
Service `NAME-primary` selects the primary. Settings of the spec are stored in the database.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import asyncpg

from kubewright import (
    Condition,
    Context,
    CustomResource,
    ObjectMeta,
    Operator,
    Result,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import Ge, ListMap
from kubewright.api.core.v1 import Service, ServicePort, ServiceSpec

CHECK_SECONDS = 10
TIMEOUT = 5.0
PORT = 5432
ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class DatabaseSpec(Spec):
    """Desired state of a database."""

    replicas: Annotated[int, Ge(1)] = 3
    settings: dict[str, str] | None = None
    """Rows of the table `settings`."""


class DatabaseStatus(Status):
    """Observed state of a database."""

    primary: str | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group="data.example.com", version="v1")
class Database(CustomResource[DatabaseSpec, DatabaseStatus]):
    """A replicated database."""


operator = Operator("databases")


@dataclass(frozen=True, slots=True)
class Member:
    """A replica that can be reached."""

    name: str
    is_primary: bool
    position: int
    """Number of writes that it has."""


@contextlib.asynccontextmanager
async def connected(database: Database, name: str) -> AsyncIterator[asyncpg.Connection]:
    """Connect to a replica."""
    host = f"{name}.{database.name}.{database.namespace}.svc"
    connection = await asyncpg.connect(
        host=host,
        port=PORT,
        user="operator",
        password="",
        database="app",
        timeout=TIMEOUT,
        command_timeout=TIMEOUT,
    )
    try:
        yield connection
    finally:
        connection.terminate()


async def members(database: Database) -> list[Member]:
    """Return the replicas that can be reached."""
    found = []
    for index in range(database.spec.replicas):
        name = f"{database.name}-{index}"
        with contextlib.suppress(*ERRORS):
            async with connected(database, name) as connection:
                in_recovery = await connection.fetchval("SELECT pg_is_in_recovery()")
                position = await connection.fetchval("SELECT pg_last_wal_replay_lsn()")
                found.append(Member(name, not in_recovery, position))
    return found


@operator.reconcile(Database, owns=(Service,))
async def reconcile(database: Database, ctx: Context[Database]) -> Result:
    """Promote the best replica if it is not the primary, and store the settings."""
    found = await members(database)
    again = Result(requeue_after=CHECK_SECONDS)
    if 2 * len(found) <= database.spec.replicas:
        # A minority could be behind the others.
        report(database, "False", "NoMajority", f"{len(found)} of {database.spec.replicas} replicas respond")
        await ctx.update_status()
        return again
    best = max(found, key=lambda each: (each.position, each.is_primary))
    try:
        async with connected(database, best.name) as connection:
            if not best.is_primary:
                ctx.event("Warning", "FailOver", f"promoted {best.name}")
                await connection.execute("SELECT pg_promote()")
            await store_settings(database, connection)
            await connection.execute("SELECT pg_basebackup()")
    except ERRORS as error:
        report(database, "False", "Unavailable", type(error).__name__)
        await ctx.update_status()
        return again
    database.status.primary = best.name
    report(database, "True", "Available", f"{best.name} is the primary")
    await ctx.ensure([primary_service(database, best.name)])
    await ctx.update_status()
    return again


async def store_settings(database: Database, connection: asyncpg.Connection) -> None:
    """Store the settings that are missing or different."""
    await connection.execute("CREATE TABLE IF NOT EXISTS settings (name text PRIMARY KEY, value text)")
    rows = {
        each["name"]: each["value"] for each in await connection.fetch("SELECT name, value FROM settings")
    }
    for name, value in (database.spec.settings or {}).items():
        if rows.get(name) != value:
            await connection.execute(
                "INSERT INTO settings (name, value) VALUES ($1, $2) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                name,
                value,
            )


def primary_service(database: Database, primary: str) -> Service:
    """Return the Service of the primary."""
    selector = {"statefulset.kubernetes.io/pod-name": primary}
    return Service(
        metadata=ObjectMeta(name=f"{database.name}-primary"),
        spec=ServiceSpec(selector=selector, ports=[ServicePort(port=PORT)]),
    )


def report(database: Database, status: str, reason: str, message: str) -> None:
    """Set the condition."""
    set_condition(database.status, Condition(type="Ready", status=status, reason=reason, message=message))
