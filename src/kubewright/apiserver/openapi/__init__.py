"""OpenAPI v2 and v3 documents of the served resources.

- `service`: `/openapi/v2` and `/openapi/v3`, caching and hashes.
- `documents`: builds whole documents.
- `operations`, `parameters`: paths, verbs and query parameters.
- `definitions`: schemas and their texts.
- `v2`: restrictions of OpenAPI v2, merging of documents.
- `protobuf`: documents in protobuf.
"""
