"""The match conditions of a webhook: expressions that decide whether it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from kubewright import cel
from kubewright.api.field_errors import aggregate

if TYPE_CHECKING:
    from kubewright.controlplane.admission.expressions import Evaluation


class MatchConditions:
    """All conditions of one webhook, compiled when they are first asked."""

    def __init__(self, conditions: Sequence[dict[str, str]]) -> None:
        self._expressions = [condition.get("expression") or "" for condition in conditions]
        self._programs: list[cel.Program | Exception] | None = None

    async def decide(self, evaluation: Evaluation) -> bool | str:
        """Whether all conditions hold; a text where that cannot be told. A false one decides at once."""
        from kubewright.controlplane.admission.expressions import EvaluationError, OutOfBudget, compiled

        if self._programs is None:
            self._programs = [compiled(_environment(), text) for text in self._expressions]
        problems: list[str] = []
        for program in self._programs:
            try:
                if isinstance(program, Exception):
                    raise program
                if await evaluation.value(program) is False:
                    return False
            except OutOfBudget as error:
                return str(error)
            except EvaluationError as error:
                problems.append(str(error))
        return aggregate(problems) if problems else True


@cache
def _environment() -> cel.Env:
    from kubewright.controlplane.admission.expressions import environment

    return environment()
