"""Custom resources: definitions, and serving what they define.

- `conditions`: status of a definition: conditions and accepted names
- `conversion`: conversion of custom resources by a webhook
- `definitions`: serving of custom resources: a definition is served as soon as it is established
- `finalization`: finalization of definitions: instances are deleted before their definition
- `serving`: the resource of a definition: versions, schemas, subresources, columns, conversion
- `strategy`: strategy of `customresourcedefinitions`: defaults, validation, deletion
"""

from __future__ import annotations

from .definitions import CustomResourceDefinitions as CustomResourceDefinitions
