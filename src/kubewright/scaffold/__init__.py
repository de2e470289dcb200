"""Create and change the source files of an operator project.

    init_project(Path("shop"), ProjectInputs(name="shop", domain="example.com"))
    create_api(Path("shop"), Resource(group="store", version="v1", kind="Shop"))
    create_webhook(Path("shop"), Resource(group="store", version="v1", kind="Shop"), defaulting=True)

Each function returns `Changes`: the files that it created and changed. Files of the user are never
overwritten: a file that exists is kept, extended by imports and definitions that it does not have, or is an
error before anything is written. The directory `config` is not scaffolded; `kubewright.manifests` generates
it from the types and the settings.

- `additions`: functions that add kinds, webhooks, API servers and plug-ins to a project
- `check`: checks of a project: declarations, permissions, and compatibility with a released version
- `edit`: `edit_project`: change the settings of a project; its files follow
- `errors`: the error of this package
- `files`: write rendered files, and report what was done
- `init`: `init_project`: create a project in a directory
- `inputs`: what a user chooses: the inputs of a project and of the kinds in it, with checks of their names
- `layout`: paths and modules of kinds, and the change between the layouts with one and with several API
  groups
- `lock`: the scaffold lock: what was generated, from which inputs
- `migration`: projects from those of other frameworks
- `render`: render the files of a project from its inputs
- `source`: edits and layout of source files that keep the user's code
- `templates`: render template sets
- `types`: Python types from schemas
- `upgrade`: `plan_upgrade`: bring the generated files of a project up to the installed version
- `check_versions`: what code, manifests and recorded requests of a project use and versions of Kubernetes
  lack
"""

from __future__ import annotations

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, renamed={"Resource": "ResourceInput"})
