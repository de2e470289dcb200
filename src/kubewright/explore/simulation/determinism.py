"""Replaces the clocks and the sources of randomness of this process during a run.

    with deterministic(loop, seed=7):
        loop.run_until_complete(...)

Inside the block these depend only on the virtual time of the loop and the seed:

- the clocks of the standard library, `time.sleep` and `datetime`, as in `fake_time`: see
  `kubewright.testing.simulated_clock`
- `os.urandom`, and with it `secrets`, `uuid.uuid4` and `random.SystemRandom`; `uuid.uuid1`; the functions of
  `random`, and `random.Random()` without a seed
- `socket.gethostname`

The wall clock is 2030-01-01T00:00:00Z at virtual time 0, plus the skew of the running simulated process.

Randomness is drawn from one stream per simulated process, which is derived from the seed and the name of the
process. A fault of one process therefore does not change the values that another one draws.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import uuid
from collections.abc import Iterator
from typing import Any

from kubewright.testing.replaced_functions import ReplacedFunctions
from kubewright.testing.simulated_clock import clock_of_thread, replaced_clocks

from .loop import PROCESS, VirtualLoop

HOST_NAME = "explore"


class Randomness:
    """Byte streams by name, from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._salt = ""
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the generator of a simulated process."""
        found = self._streams.get(name)
        if found is None:
            found = random.Random(self._start(name))  # noqa: S311 - reproducible by design
            self._streams[name] = found
        return found

    def _start(self, name: str) -> int:
        digest = hashlib.sha256(f"{self.seed}/{name}{self._salt}".encode()).digest()
        return int.from_bytes(digest, "big")

    def use_other_values(self) -> None:
        """Draw other values from now on, in all processes and in the control plane."""
        self._salt = "/other"
        for name, stream in self._streams.items():
            _seed(stream, self._start(name))
        random.seed(self._start("random"))

    def read(self, size: int) -> bytes:
        """Return bytes of the stream of the running process."""
        process = PROCESS.get()
        return self.stream("" if process is None else process.name).randbytes(size)


class _Current:
    """The randomness of the current run, in all threads."""

    randomness: Randomness | None = None


_current = _Current()
_seed = random.Random.seed


@contextlib.contextmanager
def deterministic(loop: VirtualLoop, seed: int) -> Iterator[Randomness]:
    """Use the clock of a loop and a seed until the block ends."""
    randomness = Randomness(seed)
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, _current, "randomness", None)
        _current.randomness = randomness
        stack.enter_context(_replaced_randomness.installed())
        stack.enter_context(replaced_clocks.installed())
        stack.enter_context(clock_of_thread(loop))
        state = random.getstate()
        stack.callback(random.setstate, state)
        random.seed(seed)
        yield randomness


def _seed_generator(
    randomness: Randomness, generator: random.Random, a: Any = None, version: int = 2
) -> None:
    _seed(generator, int.from_bytes(randomness.read(16), "big") if a is None else a, version)


def _new_uuid(randomness: Randomness, *args: Any, **options: Any) -> uuid.UUID:
    return uuid.UUID(bytes=randomness.read(16), version=4)


_replaced_randomness: ReplacedFunctions[Randomness] = ReplacedFunctions(lambda: _current.randomness)
_replaced_randomness.replace(os, "urandom", Randomness.read)
_replaced_randomness.replace(random, "_urandom", Randomness.read)
_replaced_randomness.replace(random.Random, "seed", _seed_generator)
_replaced_randomness.replace(uuid, "uuid1", _new_uuid)
_replaced_randomness.replace(uuid, "uuid4", _new_uuid)
_replaced_randomness.replace(socket, "gethostname", lambda randomness: HOST_NAME)
