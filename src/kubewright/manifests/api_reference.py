"""API reference of CustomResourceDefinitions, in Markdown or HTML.

    text = to_markdown(describe_kinds(definitions, samples))

Each version of a kind has a table of its fields with type, default, description, validations and CEL rules,
and the sample objects as examples.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .yaml_output import to_yaml

Schema = Mapping[str, Any]

_LIMITS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "multipleOf": "a multiple of {}",
    "pattern": "matches `{}`",
    "format": "format {}",
}


@dataclass(frozen=True)
class FieldReference:
    """One field."""

    path: str
    """Path below the object, such as `spec.hosts[].name`."""
    type: str
    required: bool
    default: str
    """JSON, or empty."""
    description: str
    validations: tuple[str, ...]


@dataclass(frozen=True)
class VersionReference:
    """One version of a kind."""

    name: str
    served: bool
    storage: bool
    deprecation: str
    description: str
    fields: tuple[FieldReference, ...]
    columns: tuple[str, ...]
    examples: tuple[str, ...]
    """YAML of sample objects."""


@dataclass(frozen=True)
class KindReference:
    """A kind with its versions."""

    kind: str
    group: str
    plural: str
    scope: str
    short_names: tuple[str, ...]
    versions: tuple[VersionReference, ...] = field(default=())


def describe_kinds(
    definitions: Iterable[Mapping[str, Any]], samples: Iterable[Mapping[str, Any]] = ()
) -> list[KindReference]:
    """Return the reference of definitions, sorted by group and kind."""
    objects = list(samples)
    found = [_kind(each["spec"], objects) for each in definitions]
    return sorted(found, key=lambda each: (each.group, each.kind))


def _kind(spec: Mapping[str, Any], samples: list[Mapping[str, Any]]) -> KindReference:
    names = spec["names"]
    return KindReference(
        kind=names["kind"],
        group=spec["group"],
        plural=names["plural"],
        scope=spec.get("scope", "Namespaced"),
        short_names=tuple(names.get("shortNames") or ()),
        versions=tuple(_version(spec, version, samples) for version in spec["versions"]),
    )


def _version(
    spec: Mapping[str, Any], version: Mapping[str, Any], samples: list[Mapping[str, Any]]
) -> VersionReference:
    schema: Schema = version["schema"]["openAPIV3Schema"]
    names = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
    warning = version.get("deprecationWarning") or ("deprecated" if version.get("deprecated") else "")
    common = ("apiVersion", "kind", "metadata")
    properties = {
        name: child for name, child in (schema.get("properties") or {}).items() if name not in common
    }
    top = {**schema, "properties": properties}
    return VersionReference(
        name=version["name"],
        served=version.get("served", True),
        storage=bool(version.get("storage")),
        deprecation=warning,
        description=schema.get("description", ""),
        fields=tuple(_fields(top, "")),
        columns=tuple(each["name"] for each in version.get("additionalPrinterColumns") or ()),
        examples=tuple(
            to_yaml([dict(each)]).removeprefix("---\n")
            for each in samples
            if (each.get("apiVersion"), each.get("kind")) == names
        ),
    )


def _fields(schema: Schema, path: str) -> Iterator[FieldReference]:
    required = set(schema.get("required") or ())
    for name, child in sorted((schema.get("properties") or {}).items()):
        here = f"{path}.{name}" if path else name
        yield FieldReference(
            path=here,
            type=type_text(child),
            required=name in required,
            default=json.dumps(child["default"]) if "default" in child else "",
            description=" ".join(child.get("description", "").split()),
            validations=tuple(_validations(child)),
        )
        inner, suffix = child, ""
        while True:
            if isinstance(inner.get("items"), Mapping):
                inner, suffix = inner["items"], f"{suffix}[]"
            elif isinstance(inner.get("additionalProperties"), Mapping):
                inner, suffix = inner["additionalProperties"], f"{suffix}.<key>"
            else:
                break
        yield from _fields(inner, here + suffix)


def type_text(schema: Schema) -> str:
    """Return the type of a schema in words: `string`, `list of object`, `map of integer`."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_text(schema.get('items') or {})}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {type_text(schema['additionalProperties'])}"
    if kind == "integer" and schema.get("format") in ("int32", "int64"):
        return f"integer ({schema['format']})"
    return kind or "any"


def _validations(schema: Schema) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{json.dumps(item).strip(chr(34))}`" for item in schema["enum"])
    for keyword, name in (("minimum", "at least"), ("maximum", "at most")):
        if keyword in schema:
            exclusive = schema.get(f"exclusive{keyword.capitalize()}")
            words = ("greater than" if keyword == "minimum" else "less than") if exclusive else name
            yield f"{words} {schema[keyword]}"
    for keyword, text in _LIMITS.items():
        if keyword in schema and not (keyword == "format" and schema.get("type") == "integer"):
            yield text.format(schema[keyword])
    if schema.get("nullable"):
        yield "may be null"
    if schema.get("x-kubernetes-list-type") == "set":
        yield "items are distinct"
    if schema.get("x-kubernetes-list-type") == "map":
        keys = ", ".join(schema.get("x-kubernetes-list-map-keys") or ())
        yield f"items have distinct {keys}"
    for keyword in ("oneOf", "anyOf", "allOf", "not"):
        if keyword in schema and not schema.get("x-kubernetes-int-or-string"):
            yield f"{keyword}: `{json.dumps(schema[keyword])}`"
    for rule in schema.get("x-kubernetes-validations") or ():
        message = f" ({rule['message']})" if rule.get("message") else ""
        yield f"rule `{' '.join(rule['rule'].split())}`{message}"
    items = schema.get("items")
    if isinstance(items, Mapping) and not items.get("properties"):
        yield from (f"each item: {text}" for text in _validations(items))


def to_markdown(kinds: Iterable[KindReference], *, title: str = "API reference") -> str:
    """Return a page with a section for each version of each kind."""
    kinds = list(kinds)
    lines = [f"# {title}\n"]
    lines += [
        f"- [{kind.kind}](#{_anchor(kind, version)}) `{kind.group}/{version.name}`"
        for kind in kinds
        for version in kind.versions
    ]
    for kind in kinds:
        for version in kind.versions:
            lines += ["", f"## {kind.kind} {version.name}", ""]
            lines += [f"{text}\n" for text in _facts(kind, version, code="`")]
            lines += ["| Field | Type | Default | Description |", "|---|---|---|---|"]
            for each in version.fields:
                text = _sentence(each)
                lines.append(
                    f"| `{each.path}`{' *' if each.required else ''} | {each.type} | "
                    f"{f'`{_cell(each.default)}`' if each.default else ''} | {_cell(text)} |"
                )
            lines += ["", "\\* required", ""]
            for example in version.examples:
                lines += ["```yaml", example.rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _facts(kind: KindReference, version: VersionReference, *, code: str) -> Iterator[str]:
    """Return the paragraphs above the table of a version."""
    if version.deprecation:
        yield f"Deprecated: {version.deprecation}"
    if version.description:
        yield version.description
    facts = [f"{code}{kind.group}/{version.name}{code}", f"resource {code}{kind.plural}{code}"]
    if kind.short_names:
        facts.append("short name " + ", ".join(f"{code}{name}{code}" for name in kind.short_names))
    facts.append("in a namespace" if kind.scope == "Namespaced" else "cluster-scoped")
    if version.storage:
        facts.append("storage version")
    if not version.served:
        facts.append("not served")
    if version.columns:
        facts.append(f"columns {', '.join(version.columns)}")
    yield "; ".join(facts) + "."


def _sentence(each: FieldReference) -> str:
    """Return the description of a field followed by its validations."""
    limits = "; ".join(each.validations)
    limits = f"{limits[:1].upper()}{limits[1:]}." if limits else ""
    return " ".join(part for part in (each.description, limits) if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _anchor(kind: KindReference, version: VersionReference) -> str:
    return f"{kind.kind}-{version.name}".lower()


_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #8884;padding:.4rem;"
    "text-align:left;vertical-align:top}code,pre{font:14px monospace}pre{background:#8881;padding:1rem;"
    "overflow:auto}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}"
)


def to_html(kinds: Iterable[KindReference], *, title: str = "API reference") -> str:
    """Return one page without external resources."""
    kinds = list(kinds)
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>\n<ul>",
    ]
    parts += [
        f'<li><a href="#{_anchor(kind, version)}">{kind.kind}</a> '
        f"<code>{kind.group}/{version.name}</code></li>"
        for kind in kinds
        for version in kind.versions
    ]
    parts.append("</ul>")
    for kind in kinds:
        for version in kind.versions:
            parts.append(f'<h2 id="{_anchor(kind, version)}">{kind.kind} {version.name}</h2>')
            parts += [f"<p>{html.escape(text)}</p>" for text in _facts(kind, version, code="")]
            parts.append("<table><tr><th>Field<th>Type<th>Default<th>Description</tr>")
            parts += [
                f"<tr><td><code>{html.escape(each.path)}</code>{' *' if each.required else ''}"
                f"<td>{html.escape(each.type)}<td><code>{html.escape(each.default)}</code>"
                f"<td>{_code_spans(_sentence(each))}</tr>"
                for each in version.fields
            ]
            parts.append("</table><p>* required</p>")
            parts += [f"<pre>{html.escape(example)}</pre>" for example in version.examples]
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _code_spans(text: str) -> str:
    """Return HTML for a text with code between backquotes."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return html.escape(text)
    return "".join(
        f"<code>{html.escape(piece)}</code>" if index % 2 else html.escape(piece)
        for index, piece in enumerate(pieces)
    )
