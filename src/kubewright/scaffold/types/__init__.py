"""Python types from schemas.

- `builtin_kinds`: modules of the classes of built-in kinds, found without importing them
- `builtin_types`: built-in types by their schema, to reuse `LabelSelector` instead of generating a class with
  its fields
- `from_crd`: Python types from an existing CustomResourceDefinition
- `generated_code`: checks of types that were generated from a CustomResourceDefinition, before they are
  written
- `keyword_markers`: markers for the keywords of a schema
- `python_names`: Python names for the fields and types of a schema
- `schema_types`: Python types for the schemas of a CustomResourceDefinition
- `v1beta1_crds`: CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1` in the form of `v1`
- `values_schema`: the schema of a spec from `values.yaml` and `values.schema.json` of a template folder
"""
