"""Request bodies and responses as bytes.

- `negotiation`: Accept and Content-Type, response formats.
- `request_body`: decodes and checks request bodies.
- `representation`: turns stored bytes into the response format.
- `tables`: Tables for `kubectl get`.
- `protobuf`, `protobuf_wire`, `cbor`, `yaml`, `json_errors`: the formats.
"""
