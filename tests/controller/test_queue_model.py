"""The work queue compared with a model, on fake time."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubewright.controller.queues.queue import QueueShutDown, WorkQueue
from kubewright.testing.time import FakeTimeLoop

KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([-100, 0, 0, 0, 10])
DELAYS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 7.0, 3600.0])


class Model:
    """Reference implementation of the documented behaviour."""

    def __init__(self):
        self.now = 0.0
        self.counter = 0
        self.items = {}  # key -> [priority, ready_at or 0, order, time from which it ages]
        self.locked = set()
        self.failures = {}
        self.closed = False

    def order(self):
        self.counter += 1
        return self.counter

    def add(self, key, after, priority, rate_limited):
        if self.closed:
            return
        if rate_limited:
            delay = min(0.005 * 2 ** self.failures.get(key, 0), 1000.0)
            self.failures[key] = self.failures.get(key, 0) + 1
            after = min(after, delay) if after else delay
        ready_at = self.now + after if after else 0.0
        if key not in self.items:
            self.items[key] = [priority, ready_at, self.order(), self.now - priority]
            return
        item = self.items[key]
        sooner = item[1] and ready_at < item[1]
        if priority > item[0] or sooner:
            item[2] = self.order()
            rank = self.now - max(item[0], priority)
            item[3] = rank if sooner else min(item[3], rank)
        item[0] = max(item[0], priority)
        if item[1]:
            item[1] = min(item[1], ready_at)

    def shut_down(self, drain):
        self.closed = True
        self.items = {key: item for key, item in self.items.items() if drain and not item[1]}

    def advance(self, now):
        self.now = now
        due = [key for key, item in self.items.items() if item[1] and item[1] <= self.now]
        for key in sorted(due, key=lambda key: (self.items[key][1], self.items[key][2])):
            priority, ready_at = self.items[key][:2]
            self.items[key][1:] = [0.0, self.order(), ready_at - priority]

    def ready(self):
        keys = [key for key, item in self.items.items() if not item[1] and key not in self.locked]
        return sorted(keys, key=lambda key: (self.items[key][3], self.items[key][2]))


class QueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = FakeTimeLoop()
        self.queue = WorkQueue("model", loop=self.loop)
        self.model = Model()

    def teardown(self):
        self.loop.close()

    @rule(key=KEYS, after=DELAYS, priority=PRIORITIES, rate_limited=st.booleans())
    def add(self, key, after, priority, rate_limited):
        self.queue.add(key, after=after, priority=priority, rate_limited=rate_limited)
        self.model.add(key, after, priority, rate_limited)

    @precondition(lambda self: self.model.ready())
    @rule()
    def get(self):
        expected = self.model.ready()[0]
        taken = self.loop.run_until_complete(self.queue.get())
        assert taken[:2] == (expected, self.model.items.pop(expected)[0])
        self.model.locked.add(expected)

    @precondition(lambda self: self.model.locked)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.model.locked)))
        self.queue.done(key)
        self.model.locked.discard(key)

    @rule(key=KEYS)
    def forget(self, key):
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @rule(seconds=st.sampled_from([0.0, 0.003, 0.5, 1.0, 100.0, 4000.0]))
    def advance(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.model.advance(self.loop.time())

    @rule(drain=st.booleans())
    def shut_down(self, drain):
        self.queue.shut_down(drain=drain)
        self.model.shut_down(drain)

    @precondition(lambda self: self.model.closed and not self.model.items)
    @rule()
    def get_after_shut_down(self):
        with pytest.raises(QueueShutDown):
            self.loop.run_until_complete(self.queue.get())

    @invariant()
    def agrees(self):
        model = self.model
        assert self.queue.shutting_down == model.closed
        assert len(self.queue) == len(model.ready())
        assert self.queue.waiting == sum(1 for item in model.items.values() if item[1])
        assert set(self.queue.locked) == model.locked
        assert all(key in self.queue for key in model.items)
        depths = {}
        for key in model.ready():
            priority = model.items[key][0]
            depths[priority] = depths.get(priority, 0) + 1
        assert {key: count for key, count in self.queue.metrics.depths.items() if count} == depths
        assert all(self.queue.rate_limiter.failures(key) == model.failures.get(key, 0) for key in "abcdef")


TestQueueAgainstModel = QueueMachine.TestCase
TestQueueAgainstModel.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
