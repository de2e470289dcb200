"""Validation of objects against a schema.

values       JSON schema keywords
rules        CEL rules (`x-kubernetes-validations`)
lists        duplicates in sets and list maps
metadata     coercion and validation of ObjectMeta
embedded     embedded resources
formats      string formats
fast_check   one pass that decides which of the others are needed
compiled     keywords of a node, compiled once
correlation  pairs of new and old values
cel_types    CEL types of schema nodes

- `cel_types`: CEL types of schema nodes
- `compiled`: the keywords of a schema node, compiled once
- `correlation`: correlation of new and old values, for transition rules and ratcheting
- `embedded`: embedded resources: `x-kubernetes-embedded-resource`
- `fast_check`: fast check of a value against a schema
- `formats`: string formats: what `format` means in a schema
- `lists`: duplicate items in sets and list maps
- `metadata`: coercion and validation of ObjectMeta in custom resources
- `rules`: CEL rules of a schema (`x-kubernetes-validations`), compiled once and evaluated on every write
- `values`: validation of a value against schema keywords, with the messages of kube-apiserver
"""
