"""Fixture: a store that several replicas can use."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from bench._ports import unused_port
from bench._postgresql import PostgreSQLServer

from .cluster import EtcdMember, etcd_binary, running_postgresql, store_url

_numbers = itertools.count()


class SharedStore:
    """The address of a server, and the URL of an empty store there or behind a proxy."""

    def __init__(self, kind: str, address: str) -> None:
        self.address = address
        self.kind = kind
        self._name = f"store_{next(_numbers)}"

    def url(self, options: str = "", *, address: str = "") -> str:
        return store_url(self.kind, [address or self.address], options, name=self._name)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    with running_postgresql() as server:
        yield server


@pytest.fixture(params=["etcd", "postgresql"])
async def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SharedStore]:
    if request.param == "postgresql":
        yield SharedStore("postgresql", request.getfixturevalue("postgresql_server").address)
        return
    member = EtcdMember(etcd_binary(), tmp_path, 0, [(unused_port(), unused_port())])
    try:
        await member.start()
        yield SharedStore("etcd", member.address)
    finally:
        member.kill()
