"""Functions that add kinds, webhooks, API servers and plug-ins to a project.

- `api`: `create_api`: add a version of a kind, its controller and their tests to a project
- `apiserver`: `create_apiserver`: add a kind that an API server of the project serves, its functions and
  their tests
- `crd_api`: `create_api_from_crd`: add the kind of an existing CustomResourceDefinition to a project
- `credential_plugin`: `create_credential_plugin`: add a credential plug-in to a project, or create a project
  for it
- `kubectl_plugin`: `create_kubectl_plugin`: add a plug-in of kubectl to a project, or create a project for it
- `plugin_project`: projects that consist of a plug-in of kubectl only, and entry points of plug-ins
- `template_api`: `create_api_from_templates`: add a kind whose objects expand to others by templates, without
  code
- `webhook`: `create_webhook`: add admission or conversion webhooks of a kind to a project
"""
