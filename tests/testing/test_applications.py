"""Fake applications over connections of this machine: protocols, replicas and faults."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import eventually

from kubewright.api.errors import AlreadyExists
from kubewright.api.unstructured import Unstructured
from kubewright.controlplane import ControlPlane
from kubewright.testing import start_test_server
from kubewright.testing.applications import FakeHTTP, FakeRequest, FakeSQL
from kubewright.workloads.nodes.processes.environment import ADDRESS_ANNOTATION, service_variables

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")


def make_store(**options: Any) -> FakeHTTP:
    """Return an application that stores values."""
    store = FakeHTTP("store", port=8080, **options)

    @store.route("GET", "/items/{name}")
    def get(request: FakeRequest) -> object:
        return request.data.get(request.path["name"]) or 404

    @store.route("PUT", "/items/{name}")
    def put(request: FakeRequest) -> object:
        request.data[request.path["name"]] = request.json()
        return 201

    @store.route("GET", "/health")
    def health(request: FakeRequest) -> object:
        return {"replica": request.replica.name}

    @store.route("GET", "/health", state="starting")
    def starting(request: FakeRequest) -> object:
        return 503, "starting"

    return store


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as found:
        yield found


async def status(session: aiohttp.ClientSession, method: str, url: str, **options: Any) -> int:
    async with session.request(method, url, **options) as response:
        await response.read()
        return response.status


async def test_an_http_application_responds_by_state_and_fails_on_demand(
    session: aiohttp.ClientSession,
) -> None:
    store = make_store()
    async with store.served():
        assert store.address is not None
        url = "http://{}:{}".format(*store.address)
        assert await status(session, "PUT", f"{url}/items/a", json={"size": 1}) == 201
        assert await status(session, "GET", f"{url}/items/b") == 404
        assert await status(session, "DELETE", f"{url}/items/a") == 405
        store.state = "starting"
        assert await status(session, "GET", f"{url}/health") == 503
        store.lie()
        assert await status(session, "PUT", f"{url}/items/a", json={"size": 2}) == 201
        store.recover()
        async with session.get(f"{url}/items/a") as response:
            assert await response.json() == {"size": 1}, "the write was acknowledged and not stored"
        store.reject()
        with pytest.raises(aiohttp.ClientError):
            await status(session, "GET", f"{url}/items/a")
        store.recover()
        store.restart()
        assert await status(session, "GET", f"{url}/items/a") == 404, "data is lost in a restart"


async def test_one_of_several_replicas_can_fail(session: aiohttp.ClientSession) -> None:
    store = make_store(replicas=3)
    store.replicas[1].reject()
    async with store.served():
        assert store.address is not None
        url, found = "http://{}:{}/health".format(*store.address), set()
        for _ in range(6):
            async with session.get(url, headers={"Connection": "close"}) as response:
                found.add((await response.json())["replica"])
        assert found == {"store-0", "store-2"}


async def test_a_database_replicates_promotes_and_loses_data() -> None:
    database = FakeSQL("db", replicas=3)
    async with database.served():

        async def connect(index: int) -> Any:
            host, port = database.replicas[index].address or ("", 0)
            return await asyncpg.connect(host=host, port=port, user="a", password="", database="a")

        primary, standby = await connect(0), await connect(1)
        await primary.execute("CREATE TABLE items (id integer PRIMARY KEY, name text)")
        await primary.execute("INSERT INTO items VALUES ($1::int, $2)", 7, "book")
        assert [tuple(each) for each in await standby.fetch("SELECT * FROM items")] == [(7, "book")]
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await standby.execute("DELETE FROM items")
        with pytest.raises(asyncpg.UndefinedTableError):
            await primary.fetch("SELECT * FROM missing")
        assert [await each.fetchval("SELECT pg_is_in_recovery()") for each in (primary, standby)] == [
            False,
            True,
        ]
        database.replicas[0].restart()
        primary = await connect(0)
        assert await primary.fetchval("SELECT pg_last_wal_replay_lsn()") == 0
        assert await standby.fetchval("SELECT pg_last_wal_replay_lsn()") == 2
        assert await standby.fetchval("SELECT pg_promote()") is True
        assert database.primary is database.replicas[1]
        assert await primary.fetchval("SELECT count(*) FROM items") == 1, "it follows the new primary"
        for each in (primary, standby):
            each.terminate()


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.text("abc'\"é\n", max_size=8)), max_size=6))
def test_values_pass_through_the_protocol_unchanged(rows: list[tuple[int, str]]) -> None:
    async def check() -> None:
        database = FakeSQL("db")
        async with database.served():
            host, port = database.address or ("", 0)
            connection = await asyncpg.connect(host=host, port=port, user="a", password="", database="a")
            await connection.execute("CREATE TABLE t (number integer, word text)")
            for number, word in rows:
                await connection.execute("INSERT INTO t VALUES ($1::int8, $2)", number, word)
            found = await connection.fetch("SELECT number, word FROM t")
            assert [tuple(each) for each in found] == rows
            connection.terminate()

    asyncio.run(check())


def test_host_names_are_those_of_the_service() -> None:
    database = FakeSQL("db", namespace="shop", replicas=2)
    for host, names in {
        "db": ["db-0", "db-1"],
        "db.shop.svc.cluster.local": ["db-0", "db-1"],
        "db-1.db.shop.svc": ["db-1"],
        "db-primary.shop": ["db-0"],
        "db-replica": ["db-1"],
    }.items():
        assert [each.name for each in database.find(host, 5432) or ()] == names, host
    assert database.find("db.other.svc", 5432) is None
    assert database.find("db", 80) is None


def test_processes_get_the_address_of_a_service_that_has_one() -> None:
    metadata = {"name": "db", "annotations": {ADDRESS_ANNOTATION: "127.0.0.1:4711"}}
    service = {"metadata": metadata, "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 5432}]}}
    found = service_variables([service])
    assert (found["DB_SERVICE_HOST"], found["DB_SERVICE_PORT"]) == ("127.0.0.1", "4711")


async def test_a_service_of_another_application_is_not_replaced() -> None:
    async with start_test_server("in-process") as server:
        client = server.client()
        spec = {"ports": [{"port": 80}], "selector": {"app": "store"}}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "store"}, "spec": spec}
        created = await client.create(Unstructured(service))
        with pytest.raises(AlreadyExists, match="default/store exists and is not that of a fake"):
            async with make_store().served(client):
                pass
        found = await client.get("services", "store", namespace="default")
        assert found.metadata.resource_version == created.metadata.resource_version


async def test_a_process_in_a_pod_reaches_an_application_of_its_cluster(tmp_path: Path) -> None:
    store = make_store()
    program = (
        "import json, os, urllib.request as u; host, port = os.environ['STORE_SERVICE_HOST'], "
        "os.environ['STORE_SERVICE_PORT']; "
        "body = json.dumps({'pid': 1}).encode(); "
        "u.urlopen(u.Request(f'http://{host}:{port}/items/pod', body, method='PUT'))"
    )
    async with ControlPlane(
        port=0,
        store=f"sqlite:{tmp_path / 'state.db'}",
        kubeconfig=tmp_path / "k",
        nodes=1,
        run_processes=True,
    ) as plane:
        client = plane.client()
        async with store.served(client):
            container = {"name": "main", "image": "python", "command": [sys.executable, "-c", program]}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "writer", "namespace": "default"},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
            await client.create(Unstructured(json.loads(json.dumps(pod))))
            await eventually(lambda: "pod" in store.replicas[0].data)
        assert await client.get_or_none("services", "store", namespace="default") is None
