"""Generate the files of a project: types, controllers, webhooks, tests, deployment.

    sources = generate_types(crd)          # Python types of an existing CustomResourceDefinition
    sources["v1"]

- `from_crd`: Python types from a CustomResourceDefinition
- `schema_types`, `keyword_markers`, `builtin_types`: types and markers for schemas
- `python_names`, `python_source`: names and layout of generated code
"""
