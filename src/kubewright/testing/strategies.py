"""hypothesis strategies for valid objects of a kind.

    @given(from_kind(Shop))
    def test_defaults(shop: Shop) -> None: ...

    @given(updates_of(Shop))
    def test_update(update: tuple[Shop, Shop]) -> None: ...

Values are generated from the schema that the CRD of the kind contains, and validated as the API server does,
including CEL rules. `fields` replaces the strategy of single fields, for values that no schema describes:
`from_kind(Shop, fields={"spec.image": st.sampled_from(["nginx", "redis"])})`.

Requires hypothesis, which is not installed with kubewright.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kubewright.api.declaring.declarations import is_resource, resource_info
from kubewright.api.encoding import codec
from kubewright.api.meta import MetaObject
from kubewright.manifests import crd
from kubewright.schema import SchemaVersion
from kubewright.schema.generation.from_builtin import builtin_definition, builtin_schema
from kubewright.schema.generation.from_types import Options

Schema = Mapping[str, Any]
Fields = Mapping[str, SearchStrategy[Any]]
ObjectT = TypeVar("ObjectT", bound=MetaObject)

ATTEMPTS = 30
"""Values that are drawn until one is valid, before hypothesis is asked for other input."""
MAX_SIZE = 5
"""Largest number of items of lists and maps, unless the schema requires more."""
MAX_LENGTH = 20
"""Largest length of strings, unless the schema requires more."""
_TEXT = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
_NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?", fullmatch=True)
_INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def from_kind(
    kind: type[ObjectT], *, name: str = "", namespace: str = "default", fields: Fields | None = None
) -> SearchStrategy[ObjectT]:
    """Return a strategy for objects of a kind, without a status, that the API server accepts.

    Without `name`, names are generated. For built-in kinds, only the schema is known, not the further rules
    of the API server: restrict them with `fields`, or use a type of your own.
    """
    generator = _Generator(kind, name, namespace, fields or {})
    return st.composite(generator.draw_object)()


def updates_of(
    kind: type[ObjectT], *, name: str = "", namespace: str = "default", fields: Fields | None = None
) -> SearchStrategy[tuple[ObjectT, ObjectT]]:
    """Return a strategy for two objects with the same name, each of which is a valid update of the other.

    Transition rules (`oldSelf`) are evaluated in both directions.
    """
    generator = _Generator(kind, name, namespace, fields or {})
    return st.composite(generator.draw_update)()


def field_paths(kind: type[MetaObject]) -> set[str]:
    """Return the paths of all fields of a kind, such as `spec.ports[].number`."""
    return _paths(_schema_of(kind), "") - {""}


def field_strategy(kind: type[MetaObject], path: str) -> SearchStrategy[Any] | None:
    """Return the strategy for one field of a kind, or `None` if it has no such field."""
    schema: Any = _schema_of(kind)
    for step in path.replace("[]", ".[]").split("."):
        if step == "[]":
            schema = schema.get("items")
        elif step == "*" and "properties" not in schema:
            schema = schema.get("additionalProperties")
        else:
            schema = (schema.get("properties") or {}).get(step)
        if not isinstance(schema, Mapping):
            return None
    return _Values({}).of(schema, path)


class _Generator:
    """Draws objects of one kind."""

    def __init__(self, kind: type[Any], name: str, namespace: str, fields: Fields) -> None:
        self.kind = kind
        self.name = name
        self.schema, self.namespace = _schema_of(kind), namespace
        if is_resource(kind) and resource_info(kind).scope == "Cluster":
            self.namespace = ""
        self.validator = SchemaVersion(copy.deepcopy(dict(self.schema)))
        properties = {
            key: value
            for key, value in (self.schema.get("properties") or {}).items()
            if key not in ("apiVersion", "kind", "metadata", "status")
        }
        content = {**self.schema, "properties": properties}
        self.content = _Values(fields).of(content, "")
        unknown = sorted(set(fields) - _paths(content, ""))
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {unknown[0]}; fields are named as in manifests")

    def draw_object(self, draw: Callable[[SearchStrategy[Any]], Any]) -> Any:
        """Draw a valid object."""
        return self._decode(self._draw_valid(draw, self.name or draw(_NAMES)))

    def draw_update(self, draw: Callable[[SearchStrategy[Any]], Any]) -> tuple[Any, Any]:
        """Draw two objects, each a valid update of the other."""
        name = self.name or draw(_NAMES)
        before = self._draw_valid(draw, name)
        after = self._draw_valid(draw, name, before)
        return self._decode(before), self._decode(after)

    def _draw_valid(
        self, draw: Callable[[SearchStrategy[Any]], Any], name: str, other: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        for _ in range(ATTEMPTS):
            obj = {**draw(self.content), **self._identity(name)}
            self.validator.decode(obj)
            if self.validator.validate(obj).errors:
                continue
            if other is None or not (
                self.validator.validate(obj, other).errors or self.validator.validate(other, obj).errors
            ):
                return obj
        return reject()

    def _identity(self, name: str) -> dict[str, Any]:
        assert self.kind.gvk is not None
        metadata = {"name": name, **({"namespace": self.namespace} if self.namespace else {})}
        return {"apiVersion": self.kind.gvk.api_version, "kind": self.kind.gvk.kind, "metadata": metadata}

    def _decode(self, obj: dict[str, Any]) -> Any:
        return codec.from_plain(obj, self.kind)


def _schema_of(kind: type[Any]) -> Schema:
    if is_resource(kind):
        version = resource_info(kind).gvk.version
        versions = crd(kind, options=Options(allow_floats=True))["spec"]["versions"]
        found = next(each for each in versions if each["name"] == version)
        schema: Schema = found["schema"]["openAPIV3Schema"]
        return schema
    definition = builtin_definition(kind)
    if definition is None:
        raise TypeError(f"{kind.__name__} is not a kind; decorate it with @resource(group=..., version=...)")
    return builtin_schema(definition)


def _paths(schema: Schema, path: str) -> set[str]:
    found = {path}
    for name, child in (schema.get("properties") or {}).items():
        found |= _paths(child, f"{path}.{name}" if path else name)
    if isinstance(schema.get("items"), Mapping):
        found |= _paths(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        found |= _paths(schema["additionalProperties"], f"{path}.*")
    return found


class _Values:
    """Strategies for the values of schemas."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def of(self, schema: Schema, path: str) -> SearchStrategy[Any]:
        """Return the strategy for a schema at a path."""
        if path in self.fields:
            return self.fields[path]
        if "enum" in schema:
            return st.sampled_from([value for value in schema["enum"] if value is not None])
        if schema.get("x-kubernetes-int-or-string"):
            return st.integers(0, 100) | st.integers(0, 100).map(lambda percent: f"{percent}%")
        match schema.get("type"):
            case "string":
                return self._string(schema)
            case "integer":
                return self._integer(schema)
            case "number":
                return self._number(schema)
            case "boolean":
                return st.booleans()
            case "array":
                return self._array(schema, path)
            case _:
                return self._object(schema, path)

    def _string(self, schema: Schema) -> SearchStrategy[Any]:
        least = schema.get("minLength", 0)
        most = min(schema.get("maxLength", max(least, MAX_LENGTH)), max(least, MAX_LENGTH))
        match schema.get("format"):
            case "date-time":
                return st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)).map(
                    lambda moment: (
                        moment.replace(microsecond=0, tzinfo=UTC).isoformat().replace("+00:00", "Z")
                    )
                )
            case "byte":
                return st.just("") | st.just("AAEC")
            case "ipv4":
                return st.ip_addresses(v=4).map(str)
            case "ipv6":
                return st.ip_addresses(v=6).map(str)
            case "cidr":
                return st.sampled_from(("10.0.0.0/8", "10.1.0.0/16", "192.168.4.0/24"))
            case "uuid":
                return st.uuids().map(str)
            case "date":
                return st.dates().map(str)
            case "duration":
                return st.integers(0, 86400).map(lambda seconds: f"{seconds}s")
            case "email":
                return st.from_regex(r"[a-z]{1,8}@example\.com", fullmatch=True)
            case "uri":
                return st.from_regex(r"https://[a-z]{1,8}\.example\.com/[a-z]{0,8}", fullmatch=True)
            case "hostname" | "dns1123Label" | "dns1123Subdomain" | "k8s-short-name":
                return _NAMES
        if "pattern" in schema:
            longest = schema.get("maxLength")
            return st.from_regex(schema["pattern"].replace("$", r"\Z"), alphabet=_TEXT).filter(
                lambda text: len(text) >= least and (longest is None or len(text) <= longest)
            )
        return st.text(_TEXT, min_size=least, max_size=most)

    def _integer(self, schema: Schema) -> SearchStrategy[Any]:
        least, most = _INTEGERS.get(schema.get("format", ""), _INTEGERS["int64"])
        least = max(least, schema.get("minimum", least))
        most = min(most, schema.get("maximum", most))
        least += bool(schema.get("exclusiveMinimum")) and schema.get("minimum") == least
        most -= bool(schema.get("exclusiveMaximum")) and schema.get("maximum") == most
        step = int(schema.get("multipleOf") or 1)
        return st.integers(-(-int(least) // step), int(most) // step).map(lambda value: value * step)

    def _number(self, schema: Schema) -> SearchStrategy[Any]:
        return st.floats(
            schema.get("minimum"),
            schema.get("maximum"),
            allow_nan=False,
            allow_infinity=False,
            exclude_min=bool(schema.get("exclusiveMinimum")),
            exclude_max=bool(schema.get("exclusiveMaximum")),
        )

    def _array(self, schema: Schema, path: str) -> SearchStrategy[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", max(least, MAX_SIZE)), max(least, MAX_SIZE))
        unique: Callable[[Any], Any] | None = None
        if schema.get("x-kubernetes-list-type") == "set" or schema.get("uniqueItems"):
            unique = _key
        elif schema.get("x-kubernetes-list-type") == "map":
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            defaults = {key: schema["items"]["properties"][key].get("default") for key in keys}

            def unique(item: Any) -> Any:
                return tuple(_key(item.get(key, defaults[key])) for key in keys)

        items = self.of(schema.get("items") or {}, f"{path}[]")
        return st.lists(items, min_size=least, max_size=most, unique_by=unique)

    def _object(self, schema: Schema, path: str) -> SearchStrategy[Any]:
        least = schema.get("minProperties", 0)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            most = min(schema.get("maxProperties", max(least, MAX_SIZE)), max(least, MAX_SIZE))
            return st.dictionaries(_NAMES, self.of(additional, f"{path}.*"), min_size=least, max_size=most)
        required = set(schema.get("required") or ())
        mandatory: dict[str, SearchStrategy[Any]] = {}
        optional: dict[str, SearchStrategy[Any]] = {}
        for name, child in (schema.get("properties") or {}).items():
            value = self.of(child, f"{path}.{name}" if path else name)
            (mandatory if name in required or (name == "spec" and not path) else optional)[name] = value
        return st.fixed_dictionaries(mandatory, optional=optional)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
