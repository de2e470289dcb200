"""A structural schema as a graph of nodes.

`Node` holds the properties of one OpenAPI v3 schema that pruning, defaulting, validation, server-side apply
and strategic merge patch use. Children are created on first use, so a large or recursive set of definitions
(built-in types use `$ref`) costs only what is accessed. `raw` is the original schema, for the keywords that
only validation needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

Schema = dict[str, Any]
Definitions = Mapping[str, Schema]


class _NoDefault:
    """Absence of a default, since `None` is a possible default."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


class Node:
    """One node of a schema. Nodes are effectively immutable and shared; compare them by identity."""

    __slots__ = (
        "_additional",
        "_definitions",
        "_items",
        "_properties",
        "_shared",
        "default",
        "embedded_resource",
        "extra",
        "int_or_string",
        "list_map_keys",
        "list_type",
        "map_type",
        "nullable",
        "patch_merge_key",
        "patch_strategy",
        "preserve_unknown",
        "raw",
        "required",
        "type",
    )

    def __init__(
        self,
        schema: Schema,
        definitions: Definitions | None = None,
        _shared: dict[str, Node] | None = None,
    ) -> None:
        self._definitions: Definitions = definitions if definitions is not None else {}
        self._shared: dict[str, Node] = _shared if _shared is not None else {}
        overrides: Schema = {}
        while "$ref" in schema:
            overrides = {**{k: v for k, v in schema.items() if k != "$ref"}, **overrides}
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        raw = {**schema, **overrides} if overrides else schema
        self.raw: Schema = raw
        self.type: str = raw.get("type") or ""
        self.nullable: bool = raw.get("nullable", False)
        self.default: Any = raw.get("default", NO_DEFAULT)
        self.required: tuple[str, ...] = tuple(raw.get("required") or ())
        self.preserve_unknown: bool = raw.get("x-kubernetes-preserve-unknown-fields", False)
        self.int_or_string: bool = raw.get("x-kubernetes-int-or-string", False)
        self.embedded_resource: bool = raw.get("x-kubernetes-embedded-resource", False)
        self.list_type: Literal["atomic", "set", "map"] = raw.get("x-kubernetes-list-type") or "atomic"
        self.list_map_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        self.map_type: Literal["granular", "atomic"] = raw.get("x-kubernetes-map-type") or "granular"
        self.patch_merge_key: str | None = raw.get("x-kubernetes-patch-merge-key")
        strategies = raw.get("x-kubernetes-patch-strategy")
        self.patch_strategy: tuple[str, ...] = tuple(strategies.split(",")) if strategies else ()
        self.extra: dict[str, Any] = {}
        """Compiled objects (validators, CEL programs, apply types), cached by the code that creates them."""
        self._properties: dict[str, Node] | None = None
        self._additional: Node | Literal[False] | None = False
        self._items: Node | Literal[False] | None = False

    @property
    def is_builtin(self) -> bool:
        """Whether the node belongs to the definitions of the built-in types."""
        return type(self._definitions) is not dict

    @property
    def properties(self) -> dict[str, Node]:
        """The named fields; empty for maps and scalars."""
        if self._properties is None:
            declared: dict[str, Schema] = self.raw.get("properties") or {}
            self._properties = {name: self.nested(child) for name, child in declared.items()}
        return self._properties

    @property
    def additional(self) -> Node | None:
        """The schema of map values, or `None`; `additionalProperties: true` is an any-value node."""
        if self._additional is False:
            declared = self.raw.get("additionalProperties")
            if declared is True or declared == {}:
                declared = {"x-kubernetes-preserve-unknown-fields": True}
            self._additional = self.nested(declared) if isinstance(declared, dict) else None
        return self._additional

    @property
    def items(self) -> Node | None:
        """The schema of list elements, or `None`."""
        if self._items is False:
            declared = self.raw.get("items")
            self._items = self.nested(declared) if isinstance(declared, dict) else None
        return self._items

    def nested(self, schema: Schema) -> Node:
        """Return the node of a nested schema; plain references to one definition share a node."""
        reference = schema.get("$ref")
        if reference is None or not schema.keys() <= {"$ref", "description"}:
            return Node(schema, self._definitions, self._shared)
        found = self._shared.get(reference)
        if found is None:
            found = self._shared[reference] = Node({"$ref": reference}, self._definitions, self._shared)
        return found

    def reaches(self, name: str, test: Callable[[Node], bool]) -> bool:
        """Return whether any node in this subtree satisfies a predicate; cached under `name`."""
        known: bool | None = self.extra.get(name)
        if known is not None:
            return known
        waiting, seen = [self], {id(self): self}
        while waiting:
            node = waiting.pop()
            for child in (*node.properties.values(), node.additional, node.items):
                if child is None:
                    continue
                if test(child) or child.extra.get(name):
                    self.extra[name] = True
                    return True
                if id(child) not in seen and name not in child.extra:
                    seen[id(child)] = child
                    waiting.append(child)
        for node in seen.values():
            node.extra[name] = False
        return False

    def child(self, key: str) -> Node | None:
        """Return the schema of the field or map entry `key`, or `None` if it is not declared."""
        return self.properties.get(key) or self.additional

    def __repr__(self) -> str:
        return f"Node({self.type or 'any'})"
