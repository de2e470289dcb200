"""Fakes of other systems that a project declares for plans.

    # tests/fakes.py
    billing = FakeHTTP("billing", namespace="shop", port=8080)
    send_mail = replaced("shop.mail:send", lambda to, text: None)

A module of fakes has `FakeApplication`s as attributes, to which the operator connects by the host names of
their Services, and functions that stand in for others, named where the operator looks them up. `kubewright
plan --fakes tests.fakes` uses them, or the key `fakes` of `[tool.kubewright]`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubewright.testing.applications.application import FakeApplication

if TYPE_CHECKING:
    from kubewright.explore.simulation.factories import OperatorFactory
    from kubewright.explore.simulation.programs import ExploredProgram
    from kubewright.manager import Operator


class FakesError(Exception):
    """Fakes cannot be used; the message names the module and the reason."""


@dataclass(frozen=True, slots=True)
class ReplacedFunction:
    """A function or other attribute of a module, and what is used instead."""

    target: str
    """`module:attribute`, or `module:Class.attribute`."""
    value: Any

    def apply(self) -> Callable[[], None]:
        """Replace the attribute; return a function that restores it."""
        module, _, path = self.target.partition(":")
        try:
            owner: Any = importlib.import_module(module)
            *parents, name = path.split(".")
            for each in parents:
                owner = getattr(owner, each)
            before = getattr(owner, name)
        except (ImportError, AttributeError, ValueError) as error:
            raise FakesError(f"cannot replace {self.target}: {error}") from None
        setattr(owner, name, self.value)
        return lambda: setattr(owner, name, before)


def replaced(target: str, value: Any) -> ReplacedFunction:
    """Declare what is used instead of `module:attribute` during a plan."""
    if not target.partition(":")[2]:
        raise FakesError(f"{target!r} is not of the form module:attribute")
    return ReplacedFunction(target, value)


@dataclass(frozen=True, slots=True)
class DeclaredFakes:
    """The fakes of some modules."""

    applications: Sequence[FakeApplication] = ()
    functions: Sequence[ReplacedFunction] = ()

    @contextlib.contextmanager
    def installed(self, factory: OperatorFactory) -> Iterator[OperatorFactory]:
        """Provide a factory whose operators use the fakes: each instance imports its modules again."""
        with contextlib.ExitStack() as stack:

            def create() -> Operator | ExploredProgram:
                operator = factory()
                for each in self.functions:
                    stack.callback(each.apply())
                return operator

            yield create


def load_fakes(names: Sequence[str]) -> DeclaredFakes:
    """Import modules, and return their fakes; raise `FakesError` for a module without any."""
    applications: list[FakeApplication] = []
    functions: list[ReplacedFunction] = []
    for name in names:
        try:
            module = sys.modules.get(name) or importlib.import_module(name)
        except ImportError as error:
            raise FakesError(f"cannot import the fakes {name}: {error}") from None
        values = list(vars(module).values())
        found = [each for each in values if isinstance(each, FakeApplication | ReplacedFunction)]
        if not found:
            raise FakesError(f"{name} has no fakes: FakeHTTP, FakeSQL or replaced(...)")
        applications += [each for each in found if isinstance(each, FakeApplication)]
        functions += [each for each in found if isinstance(each, ReplacedFunction)]
    return DeclaredFakes(applications, functions)
