"""Finalizers and cleanup functions."""

import pytest

from kubewright.api.errors import NotFound
from kubewright.controller import ControllerBuilder, Finalizers, Result
from kubewright.manager import Operator
from kubewright.manager.operators.injection import InjectionError

NAME = "example.com/database"


@pytest.fixture
async def shop(bench):
    await bench.install(bench.Shop)
    return await bench.shop("a")


async def test_finalizer_is_added_before_the_reconcile(bench, shop):
    finalizers = Finalizers(bench.client, {NAME: lambda obj: None})
    bench.writes.clear()
    assert await finalizers.handle(shop) is None
    assert shop.metadata.finalizers == [NAME]
    assert (await bench.client.get(bench.Shop, "a", namespace="default")).metadata.finalizers == [NAME]
    assert await finalizers.handle(shop) is None
    assert bench.writes == ["patch shops.example.com"]


async def test_cleanup_runs_and_removes_the_finalizer(bench, shop):
    cleaned = []
    finalizers = Finalizers(bench.client, {NAME: lambda obj: cleaned.append(obj.metadata.name)})
    await finalizers.handle(shop)
    await bench.client.delete(shop)
    deleting = await bench.client.get(bench.Shop, "a", namespace="default")
    assert await finalizers.handle(deleting) == Result()
    assert cleaned == ["a"]
    with pytest.raises(NotFound):
        await bench.client.uncached.get(bench.Shop, "a", namespace="default")
    assert await finalizers.handle(deleting) == Result()


async def test_finalizer_is_not_added_to_a_deleting_object(bench, shop):
    await Finalizers(bench.client, {"example.com/other": lambda obj: None}).handle(shop)
    seen_before = await bench.client.get(bench.Shop, "a", namespace="default")
    await bench.client.delete(shop)
    finalizers = Finalizers(bench.client, {NAME: lambda obj: None})
    assert await finalizers.handle(await bench.client.get(bench.Shop, "a", namespace="default")) == Result()
    # The state on the server decides, not the cached object.
    assert await finalizers.handle(seen_before) == Result()
    assert (await bench.client.uncached.get(bench.Shop, "a", namespace="default")).metadata.finalizers == [
        "example.com/other"
    ]


async def test_concurrent_changes_keep_other_finalizers(bench, shop):
    ours = Finalizers(bench.client, {NAME: lambda obj: None})
    theirs = Finalizers(bench.client, {"example.com/theirs": lambda obj: None})
    stale = await bench.client.get(bench.Shop, "a", namespace="default")
    await theirs.handle(shop)
    assert await ours.handle(stale) is None
    assert stale.metadata.finalizers == ["example.com/theirs", NAME]
    await bench.client.delete(shop)
    deleting = await bench.client.get(bench.Shop, "a", namespace="default")
    also_deleting = await bench.client.get(bench.Shop, "a", namespace="default")
    await theirs.handle(deleting)
    await ours.handle(also_deleting)
    with pytest.raises(NotFound):
        await bench.client.uncached.get(bench.Shop, "a", namespace="default")


async def test_failed_cleanup_keeps_only_its_finalizer(bench, shop):
    def fails(obj):
        raise OSError("the database does not respond")

    async def works(obj):
        return None

    finalizers = Finalizers(bench.client, {"example.com/fails": fails, "example.com/works": works})
    await finalizers.handle(shop)
    await bench.client.delete(shop)
    with pytest.raises(OSError, match="does not respond"):
        await finalizers.handle(await bench.client.get(bench.Shop, "a", namespace="default"))
    left = await bench.client.get(bench.Shop, "a", namespace="default")
    assert left.metadata.finalizers == ["example.com/fails"]


async def test_cleanup_may_be_requeued(bench, shop):
    results = [Result(requeue_after=30), None]
    finalizers = Finalizers(bench.client, {NAME: lambda obj: results.pop(0)})

    async def reconcile(obj: bench.Shop) -> Result | None:  # type: ignore[name-defined]
        return await finalizers.handle(obj)

    reconcile.__annotations__["obj"] = bench.Shop
    ControllerBuilder(bench).for_(bench.Shop).complete(reconcile)
    async with bench.running():
        await bench.settled()
        await bench.client.delete(bench.Shop, "a", namespace="default")
        await bench.settled()
        assert len(results) == 1
        await bench.client.wait(
            bench.Shop, "a", namespace="default", until=lambda obj: obj is None, timeout=60
        )
    assert results == []


@pytest.mark.parametrize("name", ["", "/database", "example.com/", "Example_com/x", "a/b/c", "orphan"])
def test_names_that_api_servers_reject_are_rejected(name):
    with pytest.raises(ValueError, match="domain/name"):
        Finalizers(None, {name: lambda obj: None})
    operator = Operator("shops")
    with pytest.raises(InjectionError, match=r"test_finalizers\.py:\d+.*domain/name"):
        operator.finalize("shops.example.com", finalizer=name or "a b")(clean_up)


def clean_up() -> None: ...


@pytest.mark.parametrize("name", ["storage.finalizers.tutorial.kubebuilder.io", "database"])
async def test_a_name_without_a_domain_is_accepted_with_a_warning(bench, shop, caplog, name):
    finalizers = Finalizers(bench.client, {name: lambda obj: None})
    assert [record.finalizer for record in caplog.records] == [name]
    assert "finalizer name has no domain" in caplog.text
    assert await finalizers.handle(shop) is None
    assert shop.metadata.finalizers == [name]
    await bench.client.delete(shop)
    assert await finalizers.handle(await bench.client.get(bench.Shop, "a", namespace="default")) == Result()
    with pytest.raises(NotFound):
        await bench.client.uncached.get(bench.Shop, "a", namespace="default")


def test_a_name_is_registered_once():
    finalizers = Finalizers(None, {NAME: lambda obj: None})
    with pytest.raises(ValueError, match="already registered"):
        finalizers.register(NAME, lambda obj: None)
