"""Settings of a project: `[tool.kubewright]` in `pyproject.toml`, or the top level of `kubewright.toml`.

    [tool.kubewright]
    name = "shop"                  # default: [project].name, then the name of the directory
    modules = ["shop"]             # packages with types and functions
    fakes = ["tests.fakes"]        # fakes of other systems, for kubewright plan
    domain = "example.com"         # suffix of API groups
    multigroup = false             # a package per API group
    namespaced = false             # Roles in namespaces instead of ClusterRoles

    [tool.kubewright.deployment]
    image = "shop:latest"
    replicas = 1
    leader-election = true
    metrics = true
    monitor = false                # ServiceMonitor and alert rules of the Prometheus operator
    network-policy = false
    certificates = "self-signed"   # or "cert-manager"
    webhooks = true                # false: without the webhooks that the types declare

    [tool.kubewright.deployment.env]
    SHOP_IMAGE = "nginx:1.29"      # environment of the manager

    [tool.kubewright.manifests]
    output = "config"              # see `ManifestSettings`

`ProjectSettings.load(directory)` is the only reader of this table. A key with another name or a value of
another type raises `ProjectSettingsError` with the file, the key and the nearest known key. A new key is a
new field of one of the dataclasses: its TOML name has dashes instead of underscores, and its annotation is
the type that is checked.
"""

from __future__ import annotations

import difflib
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from kubewright.schema.generation.from_types import Options

SETTINGS_FILES: Final = ("kubewright.toml", "pyproject.toml")
"""Files that can hold the settings, in order of precedence."""

RENAMED_KEYS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""Former keys of `[tool.kubewright]` with their present names, as paths: `("deployment", "metrics")`.

`kubewright upgrade` renames them; until then they are errors that name the command.
"""


class ProjectSettingsError(Exception):
    """A settings file cannot be used; the message is one line with the file, the key and the reason."""


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings:
    """`[tool.kubewright.deployment]`: what the deployment of the operator contains."""

    image: str = ""
    """Image of the manager; `ProjectSettings.load` sets the default `<name>:latest`."""
    replicas: int = 1
    leader_election: bool = True
    metrics: bool = True
    """Serve `/metrics` with TLS, authentication and authorization, and create a Service for it."""
    monitor: bool = False
    """Create a ServiceMonitor and alert rules of the Prometheus operator."""
    network_policy: bool = False
    certificates: Literal["self-signed", "cert-manager"] = "self-signed"
    """Issuer of the webhook certificate: the operator itself, or cert-manager."""
    webhooks: bool = True
    """Whether to deploy the webhooks that the types declare."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the manager."""


@dataclass(frozen=True, kw_only=True)
class ManifestSettings:
    """`[tool.kubewright.manifests]`: defaults of the options of `kubewright manifests`."""

    output: str = "config"
    max_description: int | None = None
    allow_floats: bool = False
    embedded_object_meta: bool = False
    role_name: str = "manager-role"
    header: str = ""

    @property
    def schema_options(self) -> Options:
        """The settings of generated schemas."""
        from kubewright.schema.generation.from_types import Options

        return Options(
            allow_floats=self.allow_floats,
            embedded_object_meta=self.embedded_object_meta,
            max_description=self.max_description,
        )


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """`[tool.kubewright]`: settings of a project."""

    directory: Path = Path()
    """Directory of the settings file; not a key of the table."""
    path: Path | None = None
    """Settings file, or `None` if the directory has none with a table; not a key of the table."""
    name: str = ""
    modules: tuple[str, ...] = ()
    domain: str = ""
    multigroup: bool = False
    namespaced: bool = False
    fakes: tuple[str, ...] = ()
    """Modules with fakes of other systems, for `kubewright plan`."""
    deployment: DeploymentSettings = field(default_factory=DeploymentSettings)
    manifests: ManifestSettings = field(default_factory=ManifestSettings)
    has_deployment: bool = False
    """Whether the file has the table `deployment`, so that manifests include the deployment; not a key."""

    @classmethod
    def load(cls, directory: Path | str = ".") -> Self:
        """Read the settings of a directory; all of them have defaults if it has no settings file."""
        directory = Path(directory).absolute()
        path, table, project_name = _read_table(directory)
        prefix = "tool.kubewright" if path is None or path.name == "pyproject.toml" else ""
        given = _parse_table(cls, table, path or directory, prefix)
        settings = cls(**given, directory=directory, path=path, has_deployment="deployment" in table)
        name = settings.name or project_name or directory.name
        image = settings.deployment.image or f"{name}:latest"
        return replace(settings, name=name, deployment=replace(settings.deployment, image=image))

    @classmethod
    def find(cls, directory: Path | str = ".") -> Self:
        """Read the settings of the nearest directory with a settings file, from `directory` upwards."""
        start = Path(directory).absolute()
        for each in (start, *start.parents):
            if any((each / name).is_file() for name in SETTINGS_FILES):
                return cls.load(each)
        return cls.load(start)


_NOT_KEYS: Final = ("directory", "path", "has_deployment")


def _read_table(directory: Path) -> tuple[Path | None, dict[str, Any], str]:
    """Return the settings file, its table, and the name in `[project]` of `pyproject.toml`."""
    own, pyproject = (directory / name for name in SETTINGS_FILES)
    document = _read(pyproject)
    tool = document.get("tool", {})
    table = tool.get("kubewright") if isinstance(tool, dict) else None
    project = document.get("project", {})
    name = project.get("name", "") if isinstance(project, dict) else ""
    if own.is_file():
        if table is not None:
            raise ProjectSettingsError(
                f"{own} and [tool.kubewright] of {pyproject} both exist; delete one of them"
            )
        return own, _read(own), str(name)
    if table is None:
        return None, {}, str(name)
    if not isinstance(table, dict):
        raise ProjectSettingsError(f"{pyproject}: tool.kubewright must be a table")
    return pyproject, table, str(name)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ProjectSettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectSettingsError(f"{path}: {error}") from None


def keys_of(settings: type) -> dict[str, str]:
    """Return the TOML keys of a settings class with the names of their fields."""
    return {each.name.replace("_", "-"): each.name for each in fields(settings) if each.name not in _NOT_KEYS}


def _parse_table(settings: type, table: Mapping[str, Any], path: Path, prefix: str) -> dict[str, Any]:
    known = keys_of(settings)
    hints = typing.get_type_hints(settings)
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            place = f"[{prefix}] has no setting" if prefix else "no setting"
            former = tuple(f"{prefix}.{key}".removeprefix("tool.kubewright").strip(".").split("."))
            if former in RENAMED_KEYS:
                present = RENAMED_KEYS[former][-1]
                raise ProjectSettingsError(
                    f"{path}: {place} {key!r}: it was renamed to {present!r}; run kubewright upgrade"
                )
            raise ProjectSettingsError(f"{path}: {place} {key!r}; {_suggest(key, known)}")
        dotted = f"{prefix}.{key}" if prefix else key
        found[known[key]] = _convert(value, hints[known[key]], path, dotted)
    return found


def _suggest(key: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"settings are: {', '.join(known)}"


def _convert(value: Any, wanted: Any, path: Path, key: str) -> Any:
    """Return a TOML value as the annotated type of a field."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if is_dataclass(wanted) and isinstance(wanted, type):
        if isinstance(value, dict):
            return wanted(**_parse_table(wanted, value, path, key))
        raise ProjectSettingsError(f"{path}: {key} must be a table")
    if origin is UnionType:
        return _convert(value, next(each for each in arguments if each is not type(None)), path, key)
    if origin is Literal:
        if value not in arguments:
            choices = " or ".join(f'"{each}"' for each in arguments)
            raise ProjectSettingsError(f"{path}: {key} = {value!r} must be {choices}")
        return value
    if origin is tuple:
        if isinstance(value, list) and all(type(each) is arguments[0] for each in value):
            return tuple(value)
        raise ProjectSettingsError(f"{path}: {key} = {value!r} must be a list of {_names[arguments[0]]}s")
    if origin is Mapping:
        if isinstance(value, dict) and all(type(each) is arguments[1] for each in value.values()):
            return dict(value)
        raise ProjectSettingsError(f"{path}: {key} must be a table of {_names[arguments[1]]}s")
    if type(value) is not wanted:
        raise ProjectSettingsError(
            f"{path}: {key} = {value!r} must be of type {wanted.__name__} ({_examples[wanted]})"
        )
    return value


_names: Final[dict[Any, str]] = {str: "string", int: "integer", bool: "boolean"}
_examples: Final[dict[Any, str]] = {str: 'such as "text"', int: "such as 1", bool: "true or false"}
