"""Generate CRDs, RBAC roles and webhook configurations from the declarations of a project.

    manifests = generate(load_project(["shop"]))
    write(manifests, Path("config"))

The manifests are the same that controller-gen generates for equivalent Go types.

- `project`: imports modules and collects their declarations
- `generation`: all manifests of a project as files; `compare` and `write` them
- `crds`, `rbac`, `webhooks`: single objects, by `crd()`, `roles()` and `webhook_configurations()`
- `deployment`: the manager, its permissions, webhooks and network access
- `helm`: a Helm chart; `bundle`: a bundle for the Operator Lifecycle Manager, and its validation
- `settings`: `ProjectSettings`, the settings in `pyproject.toml` or `kubewright.toml`
- `compatibility`, `schema_changes`: breaking and compatible changes between definitions, `compare_crds()`
- `api_reference`: pages that describe the fields of kinds
- `client_calls`: permissions that the code of a project uses, `find_client_calls()`
- `path_checks`: checks of JSON paths against a schema
- `sample_checks`: checks and updates of the sample objects of a project
- `yaml_output`: YAML with sorted keys
- `version_needs`: what kinds, fields, features and rules need of a cluster, compared with versions of
  Kubernetes
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
