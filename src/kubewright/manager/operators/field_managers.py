"""The field managers of the functions of an operator.

Each function that handles objects has a name for server-side apply: that of the operator, or
`<operator>/<name>` if the function has a name, as timers and daemons always have. So several functions for
one kind delete only what they have applied themselves (see `client.membership`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.client.membership import FieldManager

if TYPE_CHECKING:
    from .declared_functions import ObjectHandler
    from .object_functions import ObjectFunctions


def field_manager(functions: ObjectFunctions, handler: ObjectHandler) -> FieldManager:
    """Return the field manager of a function, with those that it had before.

    Former ones are those that the operator declares and, for functions with names, that of the operator:
    earlier versions used it for all functions. One that several functions for the kind can have had does not
    allow any of them to delete objects.
    """
    reconcilers = [each for each in functions.reconcilers if each.kind == handler.kind]
    others = [each for each in (*functions.timers, *functions.daemons) if each.kind == handler.kind]
    names = {_suffix(each): each for each in (*others, *reconcilers)}
    current = {_join(functions.name, each) for each in names}
    former, ambiguous = set[str](), set[str]()
    for each in {functions.name, *functions.former_field_managers} - current:
        successor = names.get(each.partition("/")[2])
        if successor is None and len(reconcilers or others) == 1:
            (successor,) = reconcilers or others
        if successor is handler:
            former.add(each)
        elif successor is None:
            ambiguous.add(each)
    return FieldManager(
        _join(functions.name, _suffix(handler)), former=frozenset(former), ambiguous=frozenset(ambiguous)
    )


def _suffix(handler: ObjectHandler) -> str:
    return str(handler.options.get("name") or "")


def _join(operator: str, suffix: str) -> str:
    return f"{operator}/{suffix}" if suffix else operator
