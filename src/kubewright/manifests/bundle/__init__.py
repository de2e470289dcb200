"""A bundle for the Operator Lifecycle Manager (OLM), from the types and settings of a project.

    metadata = ProjectMetadata.load(directory)
    bundle = build_bundle(settings, tree, BundleOptions(version="1.0.0"), metadata=metadata)
    findings = validate_bundle(Path("bundle"))

A bundle is a directory with a ClusterServiceVersion, which contains Deployment, permissions and webhooks of
the operator, the CRDs, and further objects. OLM installs it, and issues the certificate of the webhooks.

- `bundle_format`: names and rules of the format
- `files`: `build_bundle`, the files of a bundle
- `service_version`: the ClusterServiceVersion
- `owned_kinds`: its entries for CRDs, with descriptors of their fields
- `project_metadata`: description, maintainers and links of `pyproject.toml`
- `overrides`: merges the fields that the user sets
- `validation`: `validate_bundle`; its parts `service_version_checks`, `webhook_checks`, `object_checks`
- `findings`: `BundleFinding`, what a validation reports
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
