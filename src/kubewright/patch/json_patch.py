"""JSON patch (RFC 6902): a list of operations, with the behaviour of kube-apiserver.

    [{"op": "replace", "path": "/spec/replicas", "value": 3}, {"op": "remove", "path": "/metadata/labels/x"}]

`apply(document, patch)` returns the patched document; `diff(a, b)` a patch that turns `a` into `b`. As in
Kubernetes, negative indexes count from the end, `replace` of a missing map key sets it, and `test` against
null passes for a missing key. An operation without a target raises `PatchDoesNotApply`, a malformed operation
`MalformedPatch`.

Only the containers on the path of an operation are copied, once; the rest is shared with the input.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.api.values import go_format

from .comparison import same_value
from .errors import MalformedPatch, PatchDoesNotApply, PatchTestFailed, PatchTooLarge, bounded_depth

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Total size that the `copy` operations of a patch may add."""

_MISSING: Final = object()
Operation = dict[str, Any]


@bounded_depth
def apply(document: Any, patch: Any, *, max_copied: int = MAX_COPIED_BYTES) -> Any:
    """Return the document after all operations; the input is not changed."""
    if patch is None:
        return document
    if not isinstance(patch, list):
        raise _undecodable(patch, "value of type []handlers.jsonPatchOp")
    if len(patch) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    run = _Run(document, max_copied)
    for entry in patch:
        operation = {} if entry is None else entry
        if not isinstance(operation, dict):
            raise _undecodable(operation, "value of type handlers.jsonPatchOp")
        for field in ("op", "path", "from"):
            if not isinstance(operation.get(field, ""), str):
                raise _undecodable(operation[field], f"struct field jsonPatchOp.{field} of type string")
        run.operate(operation)
    return run.document


def _undecodable(value: Any, target: str) -> MalformedPatch:
    kind = go_format.json_type_name(value)
    return MalformedPatch(f"error decoding patch: json: cannot unmarshal {kind} into Go {target}")


class _Run:
    """State of one application: the document, and the containers that were copied already."""

    __slots__ = ("_copied", "_max_copied", "_ours", "document")

    def __init__(self, document: Any, max_copied: int) -> None:
        self.document = document
        self._ours: dict[int, Any] = {}
        self._copied = 0
        self._max_copied = max_copied

    def operate(self, operation: Operation) -> None:
        name = operation.get("op")
        path = _text(operation, "path")
        match name:
            case "add":
                self._add(path, operation.get("value"), "add")
            case "remove":
                self._remove(path, "remove")
            case "replace":
                self._replace(path, operation.get("value"))
            case "move":
                source = _text(operation, "from")
                value = self._get(source, "move")
                self._remove(source, "move")
                self._add(path, value, "move")
            case "copy":
                value = self._get(_text(operation, "from"), "copy")
                self._count(value)
                self._add(path, value, "copy")
            case "test":
                self._test(path, operation.get("value"))
            case _:
                raise PatchDoesNotApply(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")

    def _count(self, value: Any) -> None:
        self._copied += len(msgspec.json.encode(value))
        if self._copied > self._max_copied:
            raise PatchDoesNotApply(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {self._max_copied}"
            )
        # The value is shared by two locations now and must be copied before a change.
        self._ours.clear()

    def _owned(self, container: Any) -> Any:
        """Return a copy of a container, or the container itself if it was copied already."""
        if id(container) in self._ours:
            return container
        copy = container.copy()
        self._ours[id(copy)] = copy
        return copy

    def _container(self, path: str, operation: str, *, change: bool) -> tuple[Any, str]:
        """Return the container of the last element of `path`, copied if it will be changed."""
        parts = path.split("/")
        if len(parts) < 2:
            raise _no_path(operation, path)
        if change and isinstance(self.document, (dict, list)):
            self.document = self._owned(self.document)
        here = self.document
        for part in parts[1:-1]:
            key = _unescaped(part)
            below = _child(here, key)
            if not isinstance(below, (dict, list)):
                raise _no_path(operation, path)
            if change:
                owned = self._owned(below)
                if owned is not below:
                    here[key if isinstance(here, dict) else _index(key, len(here))] = owned
                below = owned
            here = below
        if not isinstance(here, (dict, list)):
            raise _no_path(operation, path)
        return here, _unescaped(parts[-1])

    def _get(self, path: str, operation: str) -> Any:
        container, key = self._container(path, operation, change=False)
        value = _child(container, key)
        if value is _MISSING:
            if isinstance(container, list):
                raise PatchDoesNotApply(f"error in {operation} for path: '{path}': invalid index referenced")
            if operation == "move":
                raise PatchDoesNotApply(f"error in move for path: '{path}': missing value")
            return None
        return value

    def _add(self, path: str, value: Any, operation: str) -> None:
        container, key = self._container(path, operation, change=True)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)

    def _remove(self, path: str, operation: str) -> None:
        container, key = self._container(path, operation, change=True)
        if isinstance(container, list):
            del container[_index(key, len(container))]
        elif key in container:
            del container[key]
        else:
            raise PatchDoesNotApply(
                f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            )

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            if not isinstance(value, (dict, list)):
                raise PatchDoesNotApply("replace operation value must be object or array: %!w(<nil>)")
            self.document = value
            return
        container, key = self._container(path, "replace", change=True)
        container[key if isinstance(container, dict) else _index(key, len(container))] = value

    def _test(self, path: str, expected: Any) -> None:
        if path == "":
            actual = self.document
        else:
            container, key = self._container(path, "test", change=False)
            actual = _child(container, key)
            if actual is _MISSING:
                if isinstance(container, list):
                    raise PatchDoesNotApply(f"error in test for path: '{path}': invalid index referenced")
                actual = None
        if not same_value(actual, expected):
            raise PatchTestFailed(f"testing value {path} failed: test failed")


_NO_PATH: Final = {
    "add": 'doc is missing path: "{}"',
    "remove": 'doc is missing path: "{}"',
    "replace": "doc is missing path: {}",
    "test": "is missing path: {}",
}


def _no_path(operation: str, path: str) -> PatchDoesNotApply:
    where = _NO_PATH.get(operation, "doc is missing from path: {}").format(path)
    return PatchDoesNotApply(f"{operation} operation does not apply: {where}: missing value")


def _text(operation: Operation, field: str) -> str:
    value = operation.get(field)
    if not isinstance(value, str):
        raise PatchDoesNotApply(f"{operation.get('op')} operation failed to decode {field}: missing value")
    return value


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _index(key: str, length: int) -> int:
    """Return a list index from 0 to `length` - 1; negative indexes count from the end."""
    sign, digits = (-1, key[1:]) if key[:1] == "-" else (1, key[1:] if key[:1] == "+" else key)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise PatchDoesNotApply(f"value was not a proper array index: '{key}'")
    index = sign * int(digits)
    if not -length <= index < length:
        raise PatchDoesNotApply(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _child(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key, _MISSING)
    if not isinstance(container, list):
        return _MISSING
    try:
        return container[_index(key, len(container))]
    except PatchDoesNotApply:
        return _MISSING


def diff(before: Any, after: Any) -> list[Operation]:
    """Return operations that change `before` into `after`, two objects or two lists.

    Lists are compared element by element, so a removal in the middle rewrites what follows it.
    """
    operations: list[Operation] = []
    _diff(before, after, "", operations)
    return operations


def _diff(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            below = f"{path}/{_escaped(name)}"
            if name not in after:
                operations.append({"op": "remove", "path": below})
            elif not same_value(before[name], after[name]):
                _diff(before[name], after[name], below, operations)
        for name in after:
            if name not in before:
                operations.append({"op": "add", "path": f"{path}/{_escaped(name)}", "value": after[name]})
    elif isinstance(before, list) and isinstance(after, list):
        shared = min(len(before), len(after))
        for index in range(shared):
            _diff(before[index], after[index], f"{path}/{index}", operations)
        for index in range(len(before) - 1, shared - 1, -1):
            operations.append({"op": "remove", "path": f"{path}/{index}"})
        operations.extend({"op": "add", "path": f"{path}/-", "value": item} for item in after[shared:])
    elif not same_value(before, after):
        operations.append({"op": "replace", "path": path, "value": after})


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name
