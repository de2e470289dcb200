"""Fixture: the address of a single etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.apiserver.http.server import free_port

from .cluster import EtcdMember, etcd_binary


@pytest.fixture
async def etcd_member(tmp_path: Path) -> AsyncIterator[str]:
    member = EtcdMember(etcd_binary(), tmp_path, 0, [(free_port(), free_port())])
    try:
        await member.start()
        yield member.address
    finally:
        member.kill()
