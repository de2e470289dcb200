"""Metrics of requests, storage and watches."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kubewright.apiserver import APIServer
from kubewright.storage import StorageError
from kubewright.storage.memory import MemoryStorage
from kubewright.storage.sqlite.storage import SQLiteStorage


async def samples(talk) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and the values of its labels, in the order of the labels' names."""
    text = (await talk.send("GET", "/metrics")).body.decode()
    return {
        (sample.name, tuple(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_storage_metrics_have_the_names_of_kubernetes(talk, widget, base):
    await talk.ok("POST", base, widget("a"))
    await talk.ok("POST", base, widget("b"))
    patch = {"spec": {"size": 1}}
    await talk.ok("PATCH", f"{base}/a", patch, Content_Type="application/merge-patch+json")
    await talk.ok("GET", base)
    await talk.ok("DELETE", f"{base}/b")
    found = await samples(talk)
    resource = ("example.com", "widgets")
    for operation, times in (("create", 2), ("update", 1), ("delete", 1), ("list", 1)):
        labels = ("example.com", operation, "widgets")
        assert found["etcd_requests_total", labels] == times
        assert found["etcd_request_duration_seconds_count", labels] == times
        assert found["etcd_request_duration_seconds_sum", labels] > 0
        assert (
            found["etcd_request_duration_seconds_bucket", ("example.com", "+Inf", operation, "widgets")]
            == times
        )
    assert found["etcd_requests_total", ("example.com", "get", "widgets")] >= 2
    assert found["apiserver_storage_list_total", resource] == 1
    assert found["apiserver_storage_list_fetched_objects_total", resource] == 2
    assert found["apiserver_resource_objects", resource] == 1
    assert found["apiserver_storage_objects", ("widgets.example.com",)] == 1
    assert not any(name == "apiserver_storage_size_bytes" for name, _ in found)


async def test_watch_event_metrics(server, talk, widget, base):
    watch = (await talk.send("GET", f"{base}?watch=1")).stream
    for name in "abc":
        await talk.ok("POST", base, widget(name))
    seen = b""
    while seen.count(b"\n") < 3:
        seen += await anext(watch)
    found = await samples(talk)
    assert found["apiserver_watch_events_total", ("example.com", "widgets", "v1")] == 3
    assert found["apiserver_storage_events_received_total", ("example.com", "widgets")] == 3
    assert found["apiserver_terminated_watchers_total", ("example.com", "widgets")] == 0
    await watch.aclose()


async def test_storage_size_metric(new_server, talk_to, tmp_path):
    async with APIServer(SQLiteStorage(tmp_path / "state.db")) as server:
        assert (await samples(talk_to(server)))["apiserver_storage_size_bytes", ("etcd-0",)] > 4096


class Broken(MemoryStorage):
    """Storage whose reads and writes fail."""

    broken = False

    async def list(self, *args, **options):
        if self.broken:
            raise StorageError("the disk is unavailable")
        return await super().list(*args, **options)


async def test_failed_storage_calls_are_counted(new_server, talk_to, base):
    template = new_server()
    storage = Broken()
    async with APIServer(storage) as server:
        for store in template.stores:
            server.add(store.resource)
        storage.broken = True
        talk = talk_to(server)
        assert (await talk("GET", base))[0] == 500
        found = await samples(talk)
        assert found["etcd_request_errors_total", ("example.com", "list", "widgets")] == 1
        assert found["apiserver_resource_objects", ("example.com", "widgets")] == -1


async def test_clients_cannot_invent_labels(talk, base):
    await talk.send("GET", "/apis/invented.example.com/v1/things")
    await talk.send("GET", "/apis/invented.example.com/v1/things?timeout=nonsense")
    await talk.send("GET", "/invented/path")
    await talk.send("GET", f"{base}/none/invented")
    await talk.send("GET", f"{base}/none")
    found = await samples(talk)
    assert not any("invented" in label for _, labels in found for label in labels)
    assert any({"404", "widgets", "GET"} <= set(labels) for _, labels in found)
