"""Manifests from an imported project: definitions of its kinds, roles for its permissions, its webhooks.

`load_project` imports modules and collects declarations; `generate` turns them into files; `crd`, `roles` and
`webhook_configurations` make single objects for those who want them in memory. The manifests are those that
controller-gen writes for the equivalent Go types.
"""

from __future__ import annotations

from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import Options

from .crd import crd
from .generate import Manifests, compare, generate, leftovers, write
from .project import Project, ProjectError, import_module, load_project, read_project
from .rbac import roles
from .webhooks import webhook_configurations
from .yaml_output import to_yaml

__all__ = [
    "DeclarationError",
    "Manifests",
    "Options",
    "Problem",
    "Project",
    "ProjectError",
    "compare",
    "crd",
    "generate",
    "import_module",
    "leftovers",
    "load_project",
    "read_project",
    "roles",
    "to_yaml",
    "webhook_configurations",
    "write",
]
