"""JSON and CBOR of objects, and limits of YAML.

- `cbor`: CBOR (RFC 8949) for the JSON data model, as Kubernetes uses it
- `codec`: decode JSON to objects and encode objects to JSON, each in one pass
- `yaml_limits`: limits of the depth and size of YAML documents, checked before they are constructed
"""
