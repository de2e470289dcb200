"""Built-in resources of Kubernetes: names, schemas, descriptions and encodings, loaded at first use.

- `descriptions`: descriptions of built-in types and their fields, as `kubectl explain` prints them
- `openapi`: OpenAPI definitions of the built-in types, as kube-apiserver publishes them
- `resources`: the built-in resources of Kubernetes, with their names, scopes, verbs and subresources
- `schemas`: schemas and protobuf messages of the built-in kinds, loaded at first use
- `typed_codec`: normalize plain data as kube-apiserver does by decoding it into Go structs and encoding it
  again
- `types`: the structures of the built-in types, and their fields in each version of Kubernetes
- `wire_messages`: message descriptors: field numbers in protobuf, and which fields are always present in JSON
"""
