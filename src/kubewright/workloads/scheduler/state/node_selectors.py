"""Node selectors and affinity, taints and tolerations, as scheduling plug-ins evaluate them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kubewright.api.core.v1 import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from kubewright.api.selectors.label_selectors import SelectorError, requirement_of

NodeTest = Callable[[Mapping[str, str], str], bool]
"""Test the labels and the name of a node."""


def compile_term(term: NodeSelectorTerm | None) -> NodeTest:
    """Return a test for one term; a term without requirements, or an invalid one, matches no node."""
    if term is None or not (term.match_expressions or term.match_fields):
        return _never
    tests: list[NodeTest] = []
    try:
        for expression in term.match_expressions or ():
            tests.append(_label_test(expression))
        for expression in term.match_fields or ():
            tests.append(_field_test(expression))
    except (SelectorError, ValueError):
        return _never
    if len(tests) == 1:
        return tests[0]
    return lambda labels, name: all(test(labels, name) for test in tests)


def compile_selector(selector: NodeSelector | None) -> NodeTest:
    """Return a test for a node selector: one of its terms has to match."""
    tests = [compile_term(term) for term in (selector.node_selector_terms if selector else None) or ()]
    if len(tests) == 1:
        return tests[0]
    return lambda labels, name: any(test(labels, name) for test in tests)


def _never(labels: Mapping[str, str], name: str) -> bool:
    return False


def _label_test(expression: NodeSelectorRequirement) -> NodeTest:
    requirement = requirement_of(expression.key or "", expression.operator or "", expression.values)
    return lambda labels, name: requirement.matches(labels)


def _field_test(expression: NodeSelectorRequirement) -> NodeTest:
    if expression.key != "metadata.name" or expression.operator not in ("In", "NotIn"):
        raise ValueError(f"node selector field {expression.key!r} is not supported; use metadata.name")
    names, included = frozenset(expression.values or ()), expression.operator == "In"
    return lambda labels, name: (name in names) is included


def compile_preferences(terms: Iterable[PreferredSchedulingTerm]) -> list[tuple[int, NodeTest]]:
    """Return weights and tests; terms with weight 0 or without requirements are left out."""
    compiled = []
    for term in terms:
        preference = term.preference
        if term.weight and preference and (preference.match_expressions or preference.match_fields):
            compiled.append((term.weight, compile_term(preference)))
    return compiled


class RequiredNodeAffinity:
    """The node selector and the required node affinity of a pod."""

    __slots__ = ("_affinity", "_labels")

    def __init__(self, pod: Pod) -> None:
        spec = pod.spec
        self._labels = tuple((spec.node_selector or {}).items()) if spec else ()
        affinity = spec.affinity.node_affinity if spec and spec.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        self._affinity = compile_selector(required) if required is not None else None

    @property
    def is_empty(self) -> bool:
        """Whether every node matches."""
        return not self._labels and self._affinity is None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether the pod is allowed on a node."""
        for key, value in self._labels:
            if labels.get(key) != value:
                return False
        return self._affinity is None or self._affinity(labels, name)

    def matches_node(self, node: Node) -> bool:
        """Whether the pod is allowed on a node object."""
        return self.matches(node.metadata.labels or {}, node.metadata.name or "")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration tolerates a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    if not toleration.key:
        return False
    if operator == "Equal":
        return (toleration.value or "") == (taint.value or "")
    if operator in ("Lt", "Gt"):
        try:
            wanted, found = int(toleration.value or ""), int(taint.value or "")
        except ValueError:
            return False
        return found < wanted if operator == "Lt" else found > wanted
    return False


def tolerates_all(tolerations: Sequence[Toleration] | None, taints: Iterable[Taint]) -> bool:
    """Whether all taints are tolerated."""
    return find_untolerated(tolerations, taints) is None


def find_untolerated(tolerations: Sequence[Toleration] | None, taints: Iterable[Taint]) -> Taint | None:
    """Return the first taint that is not tolerated."""
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations or ()):
            return taint
    return None


def scheduling_taints(node: Node) -> list[Taint]:
    """Return the taints that keep pods off a node: NoSchedule and NoExecute."""
    taints = (node.spec.taints if node.spec else None) or ()
    return [taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")]
