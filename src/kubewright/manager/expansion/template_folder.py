"""`TemplateFolder`: manifests from a folder of Jinja templates, or from a Helm chart.

    folder = TemplateFolder("templates/shop")
    manifests = await folder.render({"metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 3}})

Every `.yaml`, `.yml` and `.json` file of the folder, with or without the suffix `.j2`, is a template; files
whose names start with `_` are only for `{% include %}` and `{% import %}`. `values.yaml` contains the
defaults of the spec, `values.schema.json` its schema. Templates have these variables:

| variable | value |
|---|---|
| `spec`, `Values` | the spec of the object, merged over `values.yaml` |
| `metadata` | name, namespace, labels, annotations, uid and generation of the object |
| `name`, `namespace` | those of the object, also as `Release.Name` and `Release.Namespace` |
| `apiVersion`, `kind` | those of the object |

A folder with a `Chart.yaml` is rendered by `helm template`, with the name of the object as the release name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from kubewright.api.builtin.resources import kinds_named
from kubewright.api.encoding.yaml_limits import load_limited_document
from kubewright.api.gvk import GroupVersionKind
from kubewright.client.errors import ManifestError
from kubewright.client.manifest_files import read_manifests

from .injected_structure import find_difference, has_syntax, without_syntax

if TYPE_CHECKING:
    from jinja2 import Environment

Manifest = dict[str, Any]

VALUES_FILE: Final = "values.yaml"
SCHEMA_FILE: Final = "values.schema.json"
CHART_FILE: Final = "Chart.yaml"
HELM_TIMEOUT: Final = 60.0
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_DOCUMENT: Final = re.compile(r"^---.*$", re.MULTILINE)
_FIELD: Final = r"^[\"']?{}[\"']?:[ \t]*[\"']?([^\"'\s#]+|\{{\{{.*)"
_API_VERSION: Final = re.compile(_FIELD.format("apiVersion"), re.MULTILINE)
_KIND: Final = re.compile(_FIELD.format("kind"), re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_GROUP_VERSION: Final = re.compile(r"([a-z0-9.-]+/)?v[0-9][a-z0-9]*")


class RenderError(Exception):
    """Templates cannot be rendered; the message is one line with the file, the line and the reason."""


class TemplateFolder:
    """A folder of templates."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise FileNotFoundError(f"the template folder {self.directory} does not exist")
        self.is_chart = (self.directory / CHART_FILE).is_file()
        """Whether Helm renders the folder."""
        if not self.is_chart and not self.template_names():
            raise FileNotFoundError(
                f"{self.directory} contains no templates; expected files such as deployment.yaml.j2, or a "
                "Helm chart with Chart.yaml"
            )

    def template_names(self) -> list[str]:
        """Return the paths of the templates of objects, relative to the folder."""
        root = self.directory / "templates" if self.is_chart else self.directory
        return sorted(
            path.relative_to(self.directory).as_posix()
            for path in root.rglob("*")
            if path.is_file() and _is_template(path.relative_to(self.directory))
        )

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of `values.yaml`; empty without that file."""
        path = self.directory / VALUES_FILE
        if not path.is_file():
            return {}
        try:
            values = load_limited_document(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            raise RenderError(
                f"{VALUES_FILE}{line}: not valid YAML: {getattr(error, 'problem', None) or error}"
            ) from None
        if not isinstance(values or {}, dict):
            raise RenderError(f"{VALUES_FILE}: expected a mapping, not {type(values).__name__}")
        return values or {}

    async def render(self, obj: Mapping[str, Any]) -> list[Manifest]:
        """Return the objects that the templates render to for an object; raise `RenderError`.

        Values of the object cannot add or hide objects and fields; see `injected_structure`.
        """
        objects = await self._render(obj)
        given = {name: obj.get(name) for name in ("spec", "metadata")}
        if has_syntax(given):
            plain = await self._render({**obj, **without_syntax(given)})
            if (path := find_difference(objects, plain)) is not None:
                raise RenderError(
                    f"a value with line breaks, quotes or brackets changes the rendered fields (at {path}); "
                    "write values with the filters to_json, quote or nindent"
                )
        return objects

    async def _render(self, obj: Mapping[str, Any]) -> list[Manifest]:
        values = merge_values(self.defaults, obj.get("spec") or {})
        if self.is_chart:
            return await self._render_chart(obj["metadata"], obj.get("spec") or {})
        return self._render_jinja(obj, values)

    # Jinja

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import FileSystemLoader, StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Environment(ImmutableSandboxedEnvironment):
            """Prefers the keys of a mapping to its methods, as in `spec.items`."""

            def getattr(self, obj: Any, attribute: str) -> Any:
                if isinstance(obj, dict) and attribute in obj:
                    return obj[attribute]
                return super().getattr(obj, attribute)

        environment = Environment(
            loader=FileSystemLoader(self.directory),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )
        environment.filters.update(
            to_yaml=_to_yaml,
            to_json=_to_json,
            nindent=_nindent,
            b64encode=_b64encode,
            b64decode=_b64decode,
            quote=_to_json,
        )
        return environment

    def _render_jinja(self, obj: Mapping[str, Any], values: dict[str, Any]) -> list[Manifest]:
        metadata = dict(obj["metadata"])
        for name in ("labels", "annotations"):
            metadata[name] = metadata.get(name) or {}
        name, namespace = metadata["name"], metadata.setdefault("namespace", "")
        variables = {
            "spec": values,
            "Values": values,
            "metadata": metadata,
            "name": name,
            "namespace": namespace,
            "Release": {"Name": name, "Namespace": namespace},
            "apiVersion": obj.get("apiVersion", ""),
            "kind": obj.get("kind", ""),
        }
        manifests: list[Manifest] = []
        for template in self.template_names():
            manifests += _parse(template, self._render_template(template, variables))
        return manifests

    def _render_template(self, template: str, variables: Mapping[str, Any]) -> str:
        from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError

        try:
            return self._environment.get_template(template).render(variables)
        except TemplateSyntaxError as error:
            raise RenderError(f"{error.name or template}:{error.lineno}: {error.message}") from None
        except TemplateNotFound as error:
            raise RenderError(f"{self._location(error, template)}: no template {error.name!r}") from None
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RenderError(f"{self._location(error, template)}: {error}") from None

    def _location(self, error: Exception, template: str) -> str:
        """Return the file and line of a template that raised an error: Jinja adds them to the traceback."""
        found, trace = template, error.__traceback__
        while trace is not None:
            path = Path(trace.tb_frame.f_code.co_filename)
            if path.is_relative_to(self.directory):
                found = f"{path.relative_to(self.directory).as_posix()}:{trace.tb_lineno}"
            trace = trace.tb_next
        return found

    # Helm

    async def _render_chart(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Manifest]:
        helm = shutil.which("helm")
        if helm is None:
            raise RenderError(
                f"{self.directory.name} is a Helm chart and the program helm is not installed; add it to the "
                "image of the operator (https://helm.sh), or use Jinja templates instead"
            )
        command = [helm, "template", metadata["name"], str(self.directory), "--values", "-", "--no-hooks"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "--namespace",
            metadata.get("namespace") or "default",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(HELM_TIMEOUT):
                output, errors = await process.communicate(json.dumps(spec).encode())
        except TimeoutError:
            raise RenderError(f"helm template did not finish within {HELM_TIMEOUT:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise RenderError(f"helm template: {lines[-1] if lines else f'exit code {process.returncode}'}")
        return _parse("helm template", output.decode())

    # Kinds

    def kinds(self) -> list[GroupVersionKind]:
        """Return the kinds that the templates declare, also those within conditions, without rendering.

        A kind whose apiVersion is computed is only found if it is a built-in kind.
        """
        found: dict[GroupVersionKind, None] = {}
        for name in self.template_names():
            text = (self.directory / name).read_text(encoding="utf-8")
            for document in _DOCUMENT.split(text):
                found.update(dict.fromkeys(_declared_kinds(document)))
        return list(found)

    def render_sample(self, spec: Mapping[str, Any] | None = None) -> list[Manifest]:
        """Return the objects of Jinja templates for an object with this spec, by default an empty one."""
        metadata = {"name": "sample", "namespace": "default", "uid": "", "generation": 1}
        return self._render_jinja({"metadata": metadata}, merge_values(self.defaults, spec or {}))


def merge_values(defaults: Any, values: Any) -> Any:
    """Return values merged over defaults, as Helm does: mappings are merged, `None` removes a default."""
    if not isinstance(defaults, Mapping) or not isinstance(values, Mapping):
        return values
    merged = {
        name: value for name, value in defaults.items() if name not in values or values[name] is not None
    }
    for name, value in values.items():
        if value is not None:
            merged[name] = merge_values(defaults.get(name), value)
        elif name not in defaults:
            merged[name] = None
    return merged


def _is_template(path: Path) -> bool:
    name = path.name.removesuffix(".j2")
    is_reserved = len(path.parts) == 1 and path.name in (VALUES_FILE, SCHEMA_FILE)
    return name.endswith(_SUFFIXES) and not name.startswith(("_", ".")) and not is_reserved


def _parse(template: str, text: str) -> list[Manifest]:
    """Return the objects of a rendered template."""
    if not text.strip():
        return []
    try:
        objects = [each.data for each in read_manifests(text if "\n" in text else f"{text}\n")]
    except ManifestError as error:
        message = str(error).removeprefix("<text>").lstrip(":")
        line, separator, reason = message.partition(":")
        if separator and line.isdecimal():
            message = f"line {line} of the rendered text: {reason.strip()}"
        raise RenderError(f"{template}: {message.strip()}") from None
    for each in objects:
        metadata = each.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise RenderError(f"{template}: {each['kind']} has no metadata.name, or it is not a string")
    return objects


def _declared_kinds(document: str) -> Iterator[GroupVersionKind]:
    versions = [each for each in _API_VERSION.findall(document) if _GROUP_VERSION.fullmatch(each)]
    for kind in _KIND.findall(document):
        if not _NAME.fullmatch(kind):
            continue
        for version in versions:
            yield GroupVersionKind.from_api_version(version, kind)
        if not versions:
            yield from kinds_named(kind)[:1]


def _to_yaml(value: Any, indent: int = 2) -> str:
    return (
        yaml.safe_dump(value, sort_keys=False, default_flow_style=False, indent=indent)
        .removesuffix("...\n")
        .rstrip("\n")
    )


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nindent(text: str, width: int) -> str:
    prefix = " " * width
    return "\n" + "\n".join(f"{prefix}{line}" if line else line for line in text.splitlines())


def _b64encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _b64decode(text: str) -> str:
    return base64.b64decode(text).decode()
