"""Discovery of the resources of a server, and the mapping from kinds to resources.

- `api_resource`: `APIResource`: a resource as a server serves it, and its URL paths
- `discovery`: list the resources of a server
- `rest_mapper`: `RESTMapper`: map a kind, in any of its forms, to the resource that serves it
"""
