"""How server-side apply merges values, derived from a schema.

A `MergeSchema` is what a schema allows at one path: a map, a list, a scalar, or (without a type in the
schema) any of them. Maps are granular (each entry has its own owners) or atomic; lists are atomic, sets of
scalars, or keyed by fields of their elements. Without a type the schema is *deduced* from the value: maps are
granular and lists atomic.

Merge schemas are created from `kubewright.schema.structural.Node` on first use and cached in the node.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from kubewright.schema.structural import NO_DEFAULT, Node

MAP: Final = 1
SCALAR: Final = 2
LIST: Final = 3
Kind = Literal[1, 2, 3]

ScalarType = Literal["numeric", "string", "boolean", "untyped"]


class MergeSchema:
    """Types that are allowed at one path, and how they merge."""

    __slots__ = (
        "_children",
        "_element",
        "_inherits_unknown",
        "_node",
        "_other",
        "deduced",
        "key_defaults",
        "keys",
        "list",
        "list_atomic",
        "map",
        "map_atomic",
        "scalar",
    )

    def __init__(self, node: Node | None, *, inherits_unknown: bool = False) -> None:
        self._node = node
        self._inherits_unknown = inherits_unknown or (node is not None and node.preserve_unknown)
        self._children: dict[str, MergeSchema | None] = {}
        self._element: MergeSchema | None = None
        self._other: MergeSchema | None = None
        self.deduced = node is None
        """Return whether the schema declares nothing here."""
        kind = node.type if node is not None else ""
        self.map = kind in ("object", "")
        self.list = kind in ("array", "")
        self.scalar: ScalarType | None = _scalar_type(node)
        self.map_atomic = False
        self.list_atomic = True
        self.keys: tuple[str, ...] = ()
        """Key fields of a list of type map; empty for a set."""
        self.key_defaults: dict[str, Any] = {}
        if node is None:
            return
        # RawExtension is atomic in built-in types.
        raw = node.preserve_unknown and node.is_builtin
        self.map_atomic = raw or node.map_type == "atomic"
        if self.list:
            self._read_list(node)

    def _read_list(self, node: Node) -> None:
        if node.list_type != "atomic":
            self.list_atomic = False
            self.keys = node.list_map_keys if node.list_type == "map" else ()
        elif "x-kubernetes-list-type" not in node.raw and "merge" in node.patch_strategy:
            # Older types have no list type; their strategic merge patch tags have the same meaning.
            self.list_atomic = False
            self.keys = (node.patch_merge_key,) if node.patch_merge_key else ()
        if self.keys and node.items is not None:
            declared = node.items.properties
            self.key_defaults = {
                key: declared[key].default
                for key in self.keys
                if key in declared and declared[key].default not in (NO_DEFAULT, None)
            }

    def child(self, name: str) -> MergeSchema | None:
        """Return the schema of the field or map entry `name`; `None` if it is not allowed."""
        try:
            return self._children[name]
        except KeyError:
            pass
        if self.deduced:
            return self if self is not UNTYPED_ATOMIC else UNTYPED_ATOMIC
        schema = self._declared_child(name)
        if schema is None:
            return self._any_other()
        self._children[name] = schema
        return schema

    def _declared_child(self, name: str) -> MergeSchema | None:
        assert self._node is not None
        declared = self._node.properties.get(name)
        return shape_of(declared, inherits_unknown=self._inherits_unknown) if declared is not None else None

    def _any_other(self) -> MergeSchema | None:
        """Return the schema of entries that are not declared fields."""
        node = self._node
        assert node is not None
        if self._other is None:
            if node.additional is not None:
                declared = node.raw["additionalProperties"]
                untyped = declared is True or declared == {}
                self._other = (
                    DEDUCED if untyped else shape_of(node.additional, inherits_unknown=self._inherits_unknown)
                )
            elif "additionalProperties" not in node.raw and (self._inherits_unknown or not self._names()):
                self._other = DEDUCED
        return self._other

    def _names(self) -> bool:
        assert self._node is not None
        return bool(self._node.properties)

    def declares(self, name: str) -> bool:
        """Return whether `name` is a declared field and not a map key."""
        return self._node is not None and name in self._node.properties

    @property
    def element(self) -> MergeSchema:
        """Schema of list elements."""
        if self._element is None:
            items = self._node.items if self._node is not None else None
            self._element = (
                shape_of(items, inherits_unknown=self._inherits_unknown)
                if items is not None
                else UNTYPED_ATOMIC
            )
        return self._element

    def kind_of(self, value: Any) -> Kind:
        """Return the kind that `value` is treated as: its own if allowed, else the first allowed one."""
        cls = value.__class__
        if cls is dict:
            if self.map:
                return MAP
        elif cls is list:
            if self.list:
                return LIST
        elif value is not None and self.scalar is not None:
            return SCALAR
        if self.map:
            return MAP
        return SCALAR if self.scalar is not None else LIST


def _scalar_type(node: Node | None) -> ScalarType | None:
    if node is None:
        return "untyped"
    match node.type:
        case "integer" | "number":
            return "numeric"
        case "string":
            return "string" if node.raw.get("format") in (None, "", "byte") else "untyped"
        case "boolean":
            return "boolean"
        case "":
            return "untyped"
        case _:
            return None


class _Root(MergeSchema):
    """The merge schema of an object; adds apiVersion, kind and metadata if the schema omits them."""

    __slots__ = ("_meta",)

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._meta = node.properties.get("metadata")

    def _declared_child(self, name: str) -> MergeSchema | None:
        if name == "metadata" and (self._meta is None or not self._meta.properties):
            return _OBJECT_META
        schema = super()._declared_child(name)
        return _STRING if schema is None and name in ("apiVersion", "kind") else schema

    def _names(self) -> bool:
        return True

    def declares(self, name: str) -> bool:
        return name in ("apiVersion", "kind", "metadata") or super().declares(name)


def shape_of(node: Node, *, inherits_unknown: bool = False) -> MergeSchema:
    """Return the cached merge schema of a node; preserving unknown fields is inherited."""
    slot = "apply-unknown" if inherits_unknown else "apply"
    schema: MergeSchema | None = node.extra.get(slot)
    if schema is None:
        if node.embedded_resource:
            schema = _Root(node)
        else:
            schema = MergeSchema(node, inherits_unknown=inherits_unknown)
        node.extra[slot] = schema
    return schema


def object_merge_schema(node: Node | None) -> MergeSchema:
    """Return the merge schema of objects; without a node, everything is deduced."""
    if node is None:
        return DEDUCED
    schema: MergeSchema | None = node.extra.get("apply-object")
    if schema is None:
        schema = node.extra["apply-object"] = _Root(node)
    return schema


DEDUCED: Final = MergeSchema(None)
UNTYPED_ATOMIC: Final = MergeSchema(None)
UNTYPED_ATOMIC.map_atomic = True
_STRING: Final = MergeSchema(Node({"type": "string"}))

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_OBJECT_META: Final = MergeSchema(
    Node(
        {
            "type": "object",
            "properties": {
                "annotations": _TEXTS,
                "creationTimestamp": {"type": "string", "format": "date-time"},
                "deletionGracePeriodSeconds": {"type": "integer"},
                "deletionTimestamp": {"type": "string", "format": "date-time"},
                "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
                "generateName": _TEXT,
                "generation": {"type": "integer"},
                "labels": _TEXTS,
                "managedFields": {"type": "array", "items": {"type": "object"}},
                "name": _TEXT,
                "namespace": _TEXT,
                "ownerReferences": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                    "items": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {
                            "apiVersion": _TEXT,
                            "blockOwnerDeletion": {"type": "boolean"},
                            "controller": {"type": "boolean"},
                            "kind": _TEXT,
                            "name": _TEXT,
                            "uid": _TEXT,
                        },
                    },
                },
                "resourceVersion": _TEXT,
                "selfLink": _TEXT,
                "uid": _TEXT,
            },
        }
    )
)
