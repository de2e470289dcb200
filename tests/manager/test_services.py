"""Services that functions of an operator receive by type."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api import CustomResource, FieldError, ObjectMeta, Spec, resource
from kubewright.client import Client
from kubewright.manager import Context, InjectionError, Operator
from kubewright.testing.operators import run_operator


class ArchiveSpec(Spec):
    size: int = 1


@resource(group="services.example.com", version="v1")
class Archive(CustomResource[ArchiveSpec, None]):
    """An archive."""


class BackupClient:
    """A client of another system."""

    def __init__(self) -> None:
        self.saved: list[str] = []

    def save(self, name: str) -> None:
        self.saved.append(name)


LOG: list[str] = []


class Audit:
    """A service with a close method."""

    def __init__(self, backups: BackupClient) -> None:
        LOG.append("audit")
        self.backups = backups

    async def aclose(self) -> None:
        """Close it."""
        LOG.append("close audit")


class Report:
    """A service that uses another one."""

    def __init__(self, backups: BackupClient) -> None:
        self.backups = backups


def archive(name: str = "a", size: int = 1) -> Archive:
    return Archive(metadata=ObjectMeta(name=name, namespace="default"), spec=ArchiveSpec(size=size))


async def test_services_are_created_once_injected_and_closed_in_reverse_order(client, eventually) -> None:
    operator = Operator("archives")
    log = LOG
    log.clear()

    async def connect(api: Client) -> AsyncIterator[BackupClient]:
        log.append("connect")
        yield BackupClient()
        log.append("disconnect")

    operator.provide(BackupClient, connect)
    operator.provide(Audit)
    seen: dict[str, Any] = {}

    @operator.on_startup
    async def start(backups: BackupClient) -> None:
        seen["startup"] = backups

    @operator.on_cleanup
    def stop(backups: BackupClient) -> None:
        log.append("cleanup")

    @operator.reconcile(Archive)
    async def reconcile(archive: Archive, ctx: Context[Archive], backups: BackupClient, audit: Audit) -> None:
        backups.save(archive.name)
        seen["audit"] = audit

    @operator.timer(Archive, interval=60)
    def tick(archive: Archive, backups: BackupClient) -> None:
        seen["timer"] = backups

    @operator.validate(Archive)
    def validate(new: Archive, old: Archive | None, *, backups: BackupClient) -> list[FieldError]:
        seen["webhook"] = backups
        return []

    @operator.default(Archive)
    async def set_defaults(archive: Archive, backups: BackupClient) -> None:
        seen["default"] = backups

    async with run_operator(operator, client):
        await client.create(archive())
        await eventually(lambda: "audit" in seen and "timer" in seen)
    backups = seen["startup"]
    assert backups.saved == ["a"]
    assert seen["audit"].backups is seen["timer"] is seen["webhook"] is seen["default"] is backups
    assert log == ["connect", "audit", "cleanup", "close audit", "disconnect"]


async def test_a_test_replaces_a_service(client, eventually) -> None:
    operator = Operator("archives")

    def connect() -> BackupClient:
        raise AssertionError("the factory of an overridden service is not called")

    operator.provide(BackupClient, connect)
    operator.provide(Report)
    reports: list[Report] = []

    @operator.reconcile(Archive)
    async def reconcile(archive: Archive, report: Report, backups: BackupClient) -> None:
        reports.append(report)
        backups.save(archive.name)

    fake = BackupClient()
    with operator.override(BackupClient, fake):
        async with run_operator(operator, client):
            await client.create(archive())
            await eventually(lambda: fake.saved == ["a"])
    assert reports[0].backups is fake


async def test_a_factory_that_fails_stops_the_start_and_closes_the_others(client) -> None:
    operator = Operator("archives")
    log: list[str] = []

    async def connect() -> AsyncIterator[BackupClient]:
        try:
            yield BackupClient()
        finally:
            log.append("disconnect")

    def fail(backups: BackupClient) -> Report:
        raise ConnectionError("no route")

    operator.provide(BackupClient, connect)
    operator.provide(Report, fail)
    with pytest.raises(ConnectionError) as caught:
        await operator.run(client)
    assert caught.value.__notes__ == ["while creating the service Report"]
    assert log == ["disconnect"]


def test_wrong_declarations_are_errors_at_import() -> None:
    operator = Operator("archives")
    with pytest.raises(InjectionError, match=r"'backups' has annotation BackupClient; .* operator.provide"):

        @operator.reconcile(Archive)
        async def reconcile(archive: Archive, backups: BackupClient) -> None: ...

    operator.provide(BackupClient)
    with pytest.raises(ValueError, match="provided already"):
        operator.provide(BackupClient)
    with pytest.raises(ValueError, match="provided types: BackupClient"), operator.override(Report, Report):  # type: ignore[arg-type]
        pass
