"""A worker: writes its own objects and compares every read with the acknowledged writes."""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable
from typing import Any

from bench.soak.kinds import CONFIG_MAPS, GEARS, KINDS, Kind, Object
from bench.soak.report import Report
from bench.soak.server import API

MOST_OBJECTS = 24
COUNTERS = ("counter-0", "counter-1", "counter-2")
Key = tuple[Kind, str]


class Worker:
    """Runs randomly chosen operations, one after the other."""

    def __init__(self, api: API, report: Report, number: int, seed: int) -> None:
        self.api = api
        self.report = report
        self.name = f"w{number}"
        self.rng = random.Random(seed * 1000 + number)
        self.objects: dict[Key, Object] = {}
        self.counted: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self._made = 0
        self._operations: list[tuple[str, Callable[[], Awaitable[None]], int]] = [
            ("create", self.create, 6),
            ("get", self.get, 10),
            ("list", self.list, 4),
            ("update", self.update, 8),
            ("stale update", self.update_stale, 1),
            ("merge patch", self.patch, 8),
            ("json patch", self.patch_json, 4),
            ("status patch", self.patch_status, 4),
            ("apply", self.apply, 8),
            ("delete", self.delete, 5),
            ("finalizer", self.delete_with_finalizer, 1),
            ("rejected", self.create_invalid, 2),
            ("dry run", self.create_dry_run, 1),
            ("count", self.count, 3),
        ]
        self._weights = [weight for _, _, weight in self._operations]

    async def work(self, stopped: Callable[[], bool]) -> None:
        """Run operations until stopped."""
        while not stopped():
            name, do, _ = self.rng.choices(self._operations, self._weights)[0]
            if len(self.objects) >= MOST_OBJECTS:
                name, do = "delete", self.delete
            try:
                await do()
                self.report.done[name] += 1
            except Exception as error:
                self.report.add_error(f"{self.name}: {name}: {type(error).__name__}: {error}")

    def _number(self) -> int:
        return self.rng.randrange(1, 1_000_000)

    def _pick(self, kind: Kind | None = None) -> Key | None:
        held = [key for key in self.objects if kind is None or key[0] is kind]
        return self.rng.choice(held) if held else None

    async def _write(self, key: Key, method: str, body: Any, suffix: str = "", how: str = "") -> Object:
        response: Object = await self.api.must(method, f"{key[0].path}/{key[1]}{suffix}", body, kind=how)
        self.objects[key] = response
        return response

    def _check_gear(self, key: Key, response: Object) -> None:
        if key[0].hooked and response["metadata"]["annotations"]["teeth"] != str(response["spec"]["teeth"]):
            self.report.add_error(f"{key[1]}: the webhook did not see the last change")

    async def create(self) -> None:
        """Create an object."""
        kind = self.rng.choice(KINDS)
        self._made += 1
        name = f"{self.name}-{self._made}"
        made = kind.make(name, self._number(), labels={"worker": self.name})
        self.objects[kind, name] = await self.api.must("POST", kind.path, made)
        self._check_gear((kind, name), self.objects[kind, name])

    async def get(self) -> None:
        """Read an object and compare it with the response to its last write."""
        key = self._pick()
        if key is not None:
            found = await self.api.must("GET", f"{key[0].path}/{key[1]}")
            if found != self.objects[key]:
                self.report.add_error(f"{key[1]}: read {found}, expected {self.objects[key]}")

    async def list(self) -> None:
        """Read all objects of a kind."""
        kind = self.rng.choice(KINDS)
        found = await self.api.must("GET", f"{kind.path}?labelSelector=worker%3D{self.name}")
        have = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found["items"]}
        want = {
            name: obj["metadata"]["resourceVersion"] for (of, name), obj in self.objects.items() if of is kind
        }
        if have != want:
            self.report.add_error(f"{self.name}: listed {have}, expected {want}")

    async def update(self) -> None:
        """Write a whole object."""
        key = self._pick()
        if key is not None:
            changed = _merged(self.objects[key], key[0].change(self._number()))
            self._check_gear(key, await self._write(key, "PUT", changed))

    async def update_stale(self) -> None:
        """Update an object with an old resourceVersion; expect a conflict."""
        key = self._pick()
        if key is None:
            return
        old = self.objects[key]
        await self._write(key, "PATCH", key[0].change(self._number()), how="merge")
        if self.objects[key]["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]:
            return
        status, response = await self.api.ask("PUT", f"{key[0].path}/{key[1]}", old)
        if status != 409:
            self.report.add_error(f"{key[1]}: unexpected response to a stale update: {status} {response}")
        self.report.expected["conflict"] += 1

    async def patch(self) -> None:
        """Change an object with a merge patch."""
        key = self._pick()
        if key is not None:
            self._check_gear(key, await self._write(key, "PATCH", key[0].change(self._number()), how="merge"))

    async def patch_json(self) -> None:
        """Change an object with a JSON patch that tests the resourceVersion."""
        key = self._pick()
        if key is not None:
            version = self.objects[key]["metadata"]["resourceVersion"]
            patch = [
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/metadata/labels/number", "value": str(self._number())},
            ]
            await self._write(key, "PATCH", patch, how="json")

    async def patch_status(self) -> None:
        """Patch the status of a gear; its spec must not change."""
        key = self._pick(GEARS)
        if key is not None:
            before = self.objects[key]
            body = {"status": {"turns": self._number()}, "spec": {"teeth": 1}}
            after = await self._write(key, "PATCH", body, "/status", how="merge")
            if after["spec"] != before["spec"]:
                self.report.add_error(f"{key[1]}: a change of the status changed the spec")

    async def apply(self) -> None:
        """Apply a new or existing object."""
        key = self._pick() if self.rng.random() < 0.8 else None
        if key is None:
            self._made += 1
            key = self.rng.choice(KINDS), f"{self.name}-{self._made}"
        body = key[0].make(key[1], self._number(), labels={"worker": self.name})
        self._check_gear(key, await self._write(key, "PATCH", body, "?fieldManager=soak&force=true", "apply"))

    async def delete(self) -> None:
        """Delete an object."""
        key = self._pick()
        if key is not None:
            obj = self.objects[key]
            uid = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            await self.api.must("DELETE", f"{key[0].path}/{key[1]}", uid)
            del self.objects[key]

    async def delete_with_finalizer(self) -> None:
        """Delete an object that has a finalizer, then remove that."""
        self._made += 1
        path = f"{GEARS.path}/{self.name}-{self._made}"
        made = GEARS.make(f"{self.name}-{self._made}", 1, finalizers=[f"{GEARS.api_version}-hold"])
        await self.api.must("POST", GEARS.path, made)
        held = await self.api.must("DELETE", path)
        if not held["metadata"].get("deletionTimestamp"):
            self.report.add_error(f"{path}: deletion did not wait for the finalizer")
        await self.api.must("PATCH", path, {"metadata": {"finalizers": None}}, kind="merge")
        status, _ = await self.api.ask("GET", path)
        if status != 404:
            self.report.add_error(f"{path}: still exists without finalizers")

    async def create_invalid(self) -> None:
        """Create objects that the schema or a webhook rejects."""
        for change, code in (({"note": "forbidden"}, 403), ({"teeth": -1}, 422)):
            made = GEARS.make(f"{self.name}-invalid", 1)
            made["spec"] |= change
            status, response = await self.api.ask("POST", GEARS.path, made)
            if status != code:
                self.report.add_error(f"unexpected response to {change}: {status} {response}")
            self.report.expected["rejection"] += 1

    async def create_dry_run(self) -> None:
        """Create with dryRun; the object must not exist afterwards."""
        path = f"{GEARS.path}/{self.name}-dry"
        await self.api.must("POST", f"{GEARS.path}?dryRun=All", GEARS.make(f"{self.name}-dry", 1))
        if (await self.api.ask("GET", path))[0] != 404:
            self.report.add_error(f"{path}: exists after a dry run")

    async def count(self) -> None:
        """Increment a counter that all workers write."""
        name = self.rng.choice(COUNTERS)
        path = f"{CONFIG_MAPS.path}/{name}"
        counter = await self.api.must("GET", path)
        counter["data"]["number"] = str(int(counter["data"]["number"]) + 1)
        status, response = await self.api.ask("PUT", path, counter)
        if status == 200:
            self.counted[name] += 1
        elif status == 409:
            self.report.expected["conflict"] += 1
        else:
            self.report.add_error(f"{name}: {status} {response}")


def _merged(obj: Object, change: Object) -> Object:
    result = copy.deepcopy(obj)
    for key, value in change.items():
        result[key] = _merged(result.get(key) or {}, value) if isinstance(value, dict) else value
    return result
