"""The official client: a dict filled by one list and then a watch, as its users write it."""

from __future__ import annotations

import os
import signal
import sys
import time

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

from kubernetes import client, config, watch

WIDGETS = ("bench.example.dev", "v1", "widgets")
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
config.load_kube_config()
objects = client.CustomObjectsApi()
listed = objects.list_cluster_custom_object(*WIDGETS)
version = listed["metadata"]["resourceVersion"]
held = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in listed["items"]}
del listed
print("synced", len(held), time.monotonic(), flush=True)
for event in watch.Watch().stream(objects.list_cluster_custom_object, *WIDGETS, resource_version=version):
    each = event["object"]
    key = each["metadata"]["namespace"], each["metadata"]["name"]
    before, held[key] = held.get(key), each
    sequence = each["spec"].get("seq")
    if sequence and (before is None or before["spec"].get("seq") != sequence):
        print("seen", sequence, time.monotonic(), flush=True)
