"""Selectors of objects and paths of fields.

- `field_paths`: field paths such as `.spec.replicas` or `.metadata.annotations['a.b/c']`
- `field_selectors`: `metadata.name=x,status.phase!=Running`
- `jsonpath`: JSONPath in the dialect of kubectl, for plain data, structs and unstructured objects
- `jsonpath_steps`: steps of a compiled JSONPath
- `label_selectors`: label selectors, as text and as structure
"""
