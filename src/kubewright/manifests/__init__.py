"""Generate CRDs, RBAC roles and webhook configurations from the declarations of a project.

    manifests = generate(load_project(["shop"]))
    write(manifests, Path("config"))

The manifests are the same that controller-gen generates for equivalent Go types.

- `project`: imports modules and collects their declarations
- `generate`: all manifests of a project as files; `compare` and `write` them
- `crd`, `rbac`, `webhooks`: single objects, by `crd()`, `roles()` and `webhook_configurations()`
- `deployment`: the manager, its permissions, webhooks and network access
- `settings`: `ProjectSettings`, the settings in `pyproject.toml` or `kubewright.toml`
- `compatibility`, `schema_changes`: breaking and compatible changes between definitions, `compare_crds()`
- `client_calls`: permissions that the code of a project uses, `find_client_calls()`
- `path_checks`: checks of JSON paths against a schema
- `yaml_output`: YAML with sorted keys
"""

from __future__ import annotations

from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import Options

from .client_calls import find_client_calls
from .compatibility import Change, compare_crds, compare_definitions
from .crd import crd
from .generate import Manifests, compare, generate, leftovers, load_project_of, remove_leftovers, write
from .project import Project, ProjectError, import_module, load_project, read_project
from .rbac import roles
from .settings import DeploymentSettings, ManifestSettings, ProjectSettings, ProjectSettingsError
from .webhooks import webhook_configurations
from .yaml_output import to_yaml

__all__ = [
    "Change",
    "DeclarationError",
    "DeploymentSettings",
    "ManifestSettings",
    "Manifests",
    "Options",
    "Problem",
    "Project",
    "ProjectError",
    "ProjectSettings",
    "ProjectSettingsError",
    "compare",
    "compare_crds",
    "compare_definitions",
    "crd",
    "find_client_calls",
    "generate",
    "import_module",
    "leftovers",
    "load_project",
    "load_project_of",
    "read_project",
    "remove_leftovers",
    "roles",
    "to_yaml",
    "webhook_configurations",
    "write",
]
