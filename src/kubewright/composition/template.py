"""`CompositionTemplate`: a graph of objects from YAML with CEL expressions.

    resources:
      - id: service
        template:
          apiVersion: v1
          kind: Service
          metadata:
            name: ${schema.metadata.name}
          spec:
            ports: [{port: 80}]
      - id: config
        includeWhen: ["${schema.spec.configured}"]
        template:
          apiVersion: v1
          kind: ConfigMap
          metadata:
            name: ${schema.metadata.name}
          data:
            url: http://${service.spec.clusterIP}
    status:
      address: ${service.spec.clusterIP}

The format is that of the ResourceGraphDefinition of kro; such a document can be used as it is (its
`spec.schema.spec` is not read: the kind is a Python class). An expression reads the object of the composition
as `schema` and other resources by their `id`, which makes them dependencies: the resource is applied when
these are ready. A field that is missing in the status of a dependency makes the resource wait.

| field of a resource | meaning |
|---|---|
| `id` | name of the node, and of the variable with the observed object |
| `template` | the object; `apiVersion` and `kind` must not contain expressions |
| `includeWhen` | expressions on `schema`; if one is false, the resource and its dependents do not exist |
| `readyWhen` | expressions on the resource, or on `each` of a collection; replaces the rules of kstatus |
| `externalRef` | apiVersion, kind and metadata of an object that is read and watched, instead of `template` |
| `forEach` | a collection: `[{zone: "${schema.spec.zones}"}]`, one object for each combination of values |

A template is checked when it is declared (`TemplateError`): expressions against the types of the kind and of
built-in kinds, fields of built-in kinds, names and cycles.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from kubewright import cel
from kubewright.api.encoding import codec
from kubewright.api.encoding.yaml_limits import load_limited_document
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.objects import base_of
from kubewright.api.scheme import Scheme
from kubewright.api.unstructured import Unstructured
from kubewright.client.patches import to_dict
from kubewright.schema import Node, apply_defaults

from .expressions import Expression, TemplateError, compile_value, evaluate, expressions_in
from .graph import ExternalObject, Graph, GraphError, NotReady
from .template_types import check_fields, object_type, schema_node

_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_FIELDS: Final = ("id", "template", "externalRef", "includeWhen", "readyWhen", "forEach")
_RESERVED: Final = frozenset(("schema", "each", "status", "item", "items", "true", "false", "null", "in"))


@dataclass
class TemplateResource:
    """A resource of a template: as declared, and compiled."""

    id: str
    path: str
    template: dict[str, Any]
    include_when: list[str] = field(default_factory=list)
    ready_when: list[str] = field(default_factory=list)
    for_each: dict[str, str] = field(default_factory=dict)
    compiled: Any = None
    conditions: list[Expression] = field(default_factory=list)
    ready_tests: list[Expression] = field(default_factory=list)
    iterators: dict[str, Expression] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    is_external: bool = False
    """Whether the object is read and not applied."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of the object."""
        return GroupVersionKind.from_api_version(self.template["apiVersion"], self.template["kind"])


class CompositionTemplate:
    """Resources with expressions; see the module."""

    def __init__(self, document: Mapping[str, Any], *, source: str = "<template>") -> None:
        """`document` has `resources` and optionally `status`; `source` is the file, for messages."""
        self.source = source
        spec = document
        if document.get("kind") == "ResourceGraphDefinition":
            spec = document.get("spec") or {}
            status = (spec.get("schema") or {}).get("status") or {}
        else:
            unknown = set(document) - {"resources", "status"}
            if unknown:
                raise TemplateError(
                    f"{source}: no such field: {', '.join(sorted(unknown))}; the fields are resources and "
                    "status"
                )
            status = document.get("status") or {}
        resources = spec.get("resources")
        if not isinstance(resources, list) or not resources:
            raise TemplateError(f"{source}: resources: expected a list of resources with id and template")
        if not isinstance(status, dict):
            raise TemplateError(f"{source}: status: expected a mapping")
        self.resources: dict[str, TemplateResource] = {}
        for index, each in enumerate(resources):
            resource = _read_resource(each, f"{source}: resources[{index}]")
            if resource.id in self.resources:
                raise TemplateError(f"{resource.path}: two resources have the id {resource.id!r}")
            self.resources[resource.id] = resource
        self._status = status
        self._compiled_status: dict[str, Any] = {}
        self._kind: type | None = None
        self._schema: Node | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CompositionTemplate:
        """Read a file; raise `TemplateError`."""
        name = os.fspath(path)
        try:
            document = load_limited_document(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise TemplateError(f"cannot read {name}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or error
            raise TemplateError(f"{name}{line}: not valid YAML: {problem}") from None
        if not isinstance(document, dict):
            raise TemplateError(f"{name}: expected a mapping with resources")
        return cls(document, source=Path(path).name)

    @property
    def kinds(self) -> list[GroupVersionKind]:
        """The kinds of the resources that are applied."""
        return list(dict.fromkeys(each.gvk for each in self.resources.values() if not each.is_external))

    @property
    def external_kinds(self) -> list[GroupVersionKind]:
        """The kinds of the resources that are read."""
        return list(dict.fromkeys(each.gvk for each in self.resources.values() if each.is_external))

    def check(self, kind: type[MetaObject], scheme: Scheme | None = None) -> None:
        """Compile all expressions for a kind; raise `TemplateError`."""
        scheme = scheme if scheme is not None else Scheme()
        nodes = {name: schema_node(each.gvk, scheme) for name, each in self.resources.items()}
        self._schema = schema_node(kind, scheme)
        variables = {"schema": object_type(self._schema)}
        for name, each in self.resources.items():
            single = object_type(nodes[name])
            variables[name] = cel.list_type(single) if each.for_each else single
        for name, each in self.resources.items():
            self._compile(each, variables, object_type(nodes[name]))
            node = nodes[name]
            if node is not None:
                for part, value in each.compiled.items():
                    if part not in ("apiVersion", "kind", "metadata"):
                        check_fields({part: value}, node, f"{each.path}.template")
        env = cel.Env(variables)
        self._compiled_status = {
            name: compile_value(value, f"{self.source}: status.{name}", partial(_compile, env))
            for name, value in self._status.items()
        }
        self._check_cycles()
        self._kind = kind

    def graph(self, obj: MetaObject | Unstructured) -> Graph:
        """Return the graph of an object; raise `GraphError` if an expression on it cannot be evaluated."""
        if self._kind is None and isinstance(obj, MetaObject):
            self.check(type(obj))
        variables = {"schema": self._data_of(obj)}
        graph = Graph()
        included = self._included(variables)
        for resource in included.values():
            ready = partial(_is_ready, resource, variables) if resource.ready_tests else None
            graph.add(
                resource.id,
                partial(_build, resource, variables),
                parameters=resource.references,
                ready=ready,
            )
        for name, value in self._compiled_status.items():
            references = _references([value]) - {"schema"}
            if references <= included.keys():
                function = partial(_set_status, obj, name, value, variables)
                graph.status_functions.append((function, tuple(sorted(references))))
        return graph

    def _data_of(self, obj: MetaObject | Unstructured) -> dict[str, Any]:
        """Return an object as data: as the API server returned it, or with the defaults of its kind."""
        raw = base_of(obj) if isinstance(obj, MetaObject) else None
        if raw is not None:
            return dict(codec.loads(raw))
        data = to_dict(obj)
        if self._schema is not None:
            apply_defaults(data, self._schema)
        return data

    def _compile(
        self, resource: TemplateResource, variables: Mapping[str, cel.Type], single: cel.Type
    ) -> None:
        path = resource.path
        schema_env = cel.Env({"schema": variables["schema"]})
        resource.conditions = [
            _compile(schema_env, text, f"{path}.includeWhen[{index}]", cel.BOOL)
            for index, text in enumerate(resource.include_when)
        ]
        others = cel.Env(variables)
        resource.iterators = {
            name: _compile(others, text, f"{path}.forEach.{name}") for name, text in resource.for_each.items()
        }
        items: dict[str, cel.Type] = {}
        for name, expression in resource.iterators.items():
            if expression.type.kind not in (cel.Kind.LIST, cel.Kind.DYN):
                raise TemplateError(f"{expression.path}: expected a list, not {expression.type}")
            items[name] = expression.type.params[0] if expression.type.params else cel.DYN
        env = cel.Env({**variables, **items})
        resource.compiled = compile_value(resource.template, f"{path}.template", partial(_compile, env))
        found = _references([resource.compiled, *resource.iterators.values()])
        if resource.id in found:
            raise TemplateError(f"{path}.template: the resource {resource.id!r} refers to itself")
        resource.references = tuple(each for each in self.resources if each in found)
        own = "each" if resource.for_each else resource.id
        ready_env = cel.Env({"schema": variables["schema"], own: single})
        resource.ready_tests = [
            _compile(ready_env, text, f"{path}.readyWhen[{index}]", cel.BOOL)
            for index, text in enumerate(resource.ready_when)
        ]

    def _check_cycles(self) -> None:
        graph = Graph()
        for name, resource in self.resources.items():
            graph.add(name, {}, after=resource.references)
        try:
            graph.order()
        except GraphError as error:
            raise TemplateError(f"{self.source}: {error}") from None

    def _included(self, variables: Mapping[str, Any]) -> dict[str, TemplateResource]:
        """Return the resources whose conditions are true, without those that depend on excluded ones."""
        excluded = {
            name
            for name, each in self.resources.items()
            if not all(_on_schema(condition, variables) is True for condition in each.conditions)
        }
        while True:
            more = {
                name
                for name, each in self.resources.items()
                if name not in excluded and not excluded.isdisjoint(each.references)
            }
            if not more:
                return {name: each for name, each in self.resources.items() if name not in excluded}
            excluded |= more


def _read_resource(value: Any, path: str) -> TemplateResource:
    if not isinstance(value, dict):
        raise TemplateError(f"{path}: expected a mapping with id and template")
    name = value.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name in _RESERVED:
        raise TemplateError(
            f"{path}.id: expected a name of letters and digits such as webServer, not {name!r}"
        )
    path = f"{path} ({name})"
    is_external = "externalRef" in value
    if is_external and {"template", "forEach"} & value.keys():
        raise TemplateError(f"{path}: a resource has either externalRef, or template and forEach")
    unknown = set(value) - set(_FIELDS)
    if unknown:
        raise TemplateError(
            f"{path}: no such field: {', '.join(sorted(unknown))}; the fields are: {', '.join(_FIELDS)}"
        )
    name_of = "externalRef" if is_external else "template"
    template = value.get(name_of)
    if not isinstance(template, dict):
        raise TemplateError(f"{path}.{name_of}: expected an object")
    for part in ("apiVersion", "kind"):
        text = template.get(part)
        if not isinstance(text, str) or not text or "${" in text:
            raise TemplateError(f"{path}.{name_of}.{part}: expected a constant string, not {text!r}")
    metadata = template.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise TemplateError(f"{path}.{name_of}.metadata.name: required")
    for_each: dict[str, str] = {}
    for index, each in enumerate(_list(value, "forEach", path)):
        if not isinstance(each, dict) or len(each) != 1:
            raise TemplateError(f'{path}.forEach[{index}]: expected one name, as in zone: "${{...}}"')
        ((iterator, text),) = each.items()
        if not isinstance(iterator, str) or not _ID.fullmatch(iterator):
            raise TemplateError(f"{path}.forEach[{index}]: {iterator!r} is not a name")
        for_each[iterator] = _expression(text, f"{path}.forEach[{index}]")
    include_when, ready_when = (
        [_expression(text, f"{path}.{part}[{index}]") for index, text in enumerate(_list(value, part, path))]
        for part in ("includeWhen", "readyWhen")
    )
    found = TemplateResource(name, path, template, include_when, ready_when, for_each)
    found.is_external = is_external
    return found


def _list(value: Mapping[str, Any], name: str, path: str) -> list[Any]:
    found = value.get(name) or []
    if not isinstance(found, list):
        raise TemplateError(f"{path}.{name}: expected a list")
    return found


def _expression(text: Any, path: str) -> str:
    if isinstance(text, str) and text.strip().startswith("${") and text.strip().endswith("}"):
        return text.strip()[2:-1].strip()
    raise TemplateError(f'{path}: expected an expression such as "${{schema.spec.enabled}}", not {text!r}')


def _compile(env: cel.Env, text: str, path: str, expected: cel.Type | None = None) -> Expression:
    try:
        checked = env.check(text)
        if expected is not None and checked.type.kind not in (expected.kind, cel.Kind.DYN):
            raise TemplateError(f"{path}: ${{{text}}} is of type {checked.type}, not {expected}")
        return Expression(path, text, checked.type, checked.references, checked.compile())
    except cel.CelCompileError as error:
        reasons = "; ".join(issue.message for issue in error.issues)
        raise TemplateError(f"{path}: ${{{text}}}: {reasons}") from None
    except cel.CelError as error:
        raise TemplateError(f"{path}: ${{{text}}}: {error}") from None


def _references(values: Sequence[Any]) -> set[str]:
    return {name for value in values for each in expressions_in(value) for name in each.references}


def _on_schema(expression: Expression, variables: Mapping[str, Any]) -> Any:
    try:
        return expression.evaluate(variables)
    except cel.CelError as error:
        raise GraphError(str(error)) from None


def _build(resource: TemplateResource, variables: Mapping[str, Any], **observed: Any) -> Any:
    """Return the object of a resource, or its objects if it is a collection."""
    every = {**variables, **_plain(observed)}
    try:
        if resource.is_external:
            metadata = evaluate(resource.compiled["metadata"], every)
            return ExternalObject(resource.gvk, metadata["name"], metadata.get("namespace"))
        if not resource.iterators:
            return evaluate(resource.compiled, every)
        values = [each.evaluate(every) for each in resource.iterators.values()]
        return [
            evaluate(resource.compiled, {**every, **dict(zip(resource.iterators, combination, strict=True))})
            for combination in itertools.product(*values)
        ]
    except cel.CelError as error:
        if observed:
            raise NotReady(str(error)) from None  # a status that is not complete yet
        raise GraphError(str(error)) from None


def _plain(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return observed objects as data; those of external resources are `Unstructured`."""
    return {name: each.raw if isinstance(each, Unstructured) else each for name, each in observed.items()}


def _is_ready(resource: TemplateResource, variables: Mapping[str, Any], observed: Any) -> bool | str:
    own = "each" if resource.iterators else resource.id
    for expression in resource.ready_tests:
        try:
            if expression.evaluate({**variables, **_plain({own: observed})}) is not True:
                return f"${{{expression.source}}} is not true yet"
        except cel.CelError as error:
            return str(error)
    return True


def _set_status(obj: Any, name: str, value: Any, variables: Mapping[str, Any], **observed: Any) -> None:
    """Set a field of the status, unless a value is missing."""
    try:
        found = evaluate(value, {**variables, **_plain(observed)})
    except cel.CelError:
        return
    if isinstance(obj, Unstructured):
        obj.set_nested("status", name, value=found)
        return
    status = obj.status
    names = dict(zip(type(status).__struct_encode_fields__, type(status).__struct_fields__, strict=True))
    if name in names:
        decoded = codec.from_plain({name: found}, type(status))
        setattr(status, names[name], getattr(decoded, names[name]))
