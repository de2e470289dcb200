"""Projects from those of other frameworks.

- `from_kopf`: `init_from_kopf`: start a project from the handlers of a kopf module
- `from_kubebuilder`: `init_from_kubebuilder`: start a project from one of kubebuilder
- `kopf_handlers`: handlers of a kopf module, read from its source without importing it
"""
