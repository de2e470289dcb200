"""The verbs of a resource.

- `endpoint`: routing of requests to the verb handlers of one resource version
- `field_managers`: field managers of a resource: who owns which field, per version and subresource
- `metadata`: metadata of created and updated objects: immutable fields, owner references, finalizers
- `options`: options of requests in queries and, for deletions, in bodies
- `patch_body`: bodies of PATCH requests: JSON patch, merge patch, strategic merge patch and apply
  configurations
- `scope`: what the verb handlers of one endpoint share: negotiation, request bodies, operations, responses
- `selection`: label and field selectors, evaluated on stored bytes
- `store`: the stored objects of one resource: keys, reading, conversion
- `verbs`: the verbs of a resource, from a request to storage and back
- `writer`: steps that creates, updates and deletes share: admission, conversion, validation errors
"""
