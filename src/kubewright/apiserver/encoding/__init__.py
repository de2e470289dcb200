"""Request bodies and responses as bytes.

- `negotiation`: Accept and Content-Type, response formats.
- `request_body`: decodes and checks request bodies.
- `representation`: turns stored bytes into the response format.
- `tables`: Tables for `kubectl get`.
- `protobuf`, `protobuf_wire`, `cbor`, `yaml`, `json_errors`: the formats.
- `converted_items`: objects in a version that is not stored, as they were encoded for the last list
- `list_writers`: long lists and Tables in other formats than compact JSON, encoded in slices of their items
- `protobuf_writers`: functions that encode protobuf messages, made from their descriptors at first use
- `yaml_events`: long YAML documents, decoded in slices on the event loop
- `yaml_output`: YAML output in slices
"""
