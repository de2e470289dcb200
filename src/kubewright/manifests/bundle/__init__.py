"""A bundle for the Operator Lifecycle Manager (OLM), from the types and settings of a project.

    metadata = ProjectMetadata.load(directory)
    bundle = build_bundle(settings, tree, BundleOptions(version="1.0.0"), metadata=metadata)
    findings = validate_bundle(Path("bundle"))

A bundle is a directory with a ClusterServiceVersion, which contains Deployment, permissions and webhooks of
the operator, the CRDs, and further objects. OLM installs it, and issues the certificate of the webhooks.

- `files`: `build_bundle`, the files of a bundle
- `service_version`: the ClusterServiceVersion
- `owned_kinds`: its entries for CRDs, with descriptors of their fields
- `project_metadata`: description, maintainers and links of `pyproject.toml`
- `overrides`: merges the fields that the user sets
- `validation`: `validate_bundle`; its parts `service_version_checks`, `webhook_checks`, `object_checks`
- `findings`: `BundleFinding`, what a validation reports
"""

from __future__ import annotations

from .files import Bundle, BundleError, BundleOptions, build_bundle, bundle_settings
from .findings import BundleFinding
from .project_metadata import ProjectMetadata
from .validation import validate_bundle

__all__ = [
    "Bundle",
    "BundleError",
    "BundleFinding",
    "BundleOptions",
    "ProjectMetadata",
    "build_bundle",
    "bundle_settings",
    "validate_bundle",
]
