"""Create and change the source files of an operator project.

    init_project(Path("shop"), ProjectInputs(name="shop", domain="example.com"))
    create_api(Path("shop"), Resource(group="store", version="v1", kind="Shop"))
    create_webhook(Path("shop"), Resource(group="store", version="v1", kind="Shop"), defaulting=True)

Each function returns `Changes`: the files that it created and changed. Files of the user are never
overwritten: a file that exists is kept, extended by imports and definitions that it does not have, or is an
error before anything is written. The directory `config` is not scaffolded; `kubewright.manifests` generates
it from the types and the settings.

- `inputs`: `ProjectInputs` and `Resource`, what a user chooses, with checks of names
- `templates`: renders jinja2 templates, also those of plug-ins (entry points `kubewright.templates`)
- `lock`: `.kubewright/scaffold.lock`, what was generated from which inputs
- `files`: `Changes`, and writing of rendered files
- `init`, `api`, `webhook`, `kubectl_plugin`, `credential_plugin`, `edit`: the commands; `plugin_project`:
  projects of plug-ins only
- `upgrade`: merges newer templates into a project; `merge`: three-way merge of texts
- `template_api`: kinds with templates instead of code; `values_schema`: their fields from `values.yaml`
- `layout`: moves modules between the layouts with one and with several API groups
- `python_edits`: adds imports and definitions to a module
- `toml_edits`: sets single keys of a TOML file
- `from_crd`: `generate_types`, Python types from a CustomResourceDefinition; `crd_api` adds them to a project
- `from_kubebuilder`, `from_kopf`, `kopf_handlers`: start a project from one of kubebuilder or kopf
- `check`: problems of a project, and its CustomResourceDefinitions in a released version
- `schema_types`, `keyword_markers`, `builtin_types`: types and markers for schemas
- `python_names`, `python_source`: names and layout of generated code
"""

from __future__ import annotations

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, renamed={"Resource": "ResourceInput"})
