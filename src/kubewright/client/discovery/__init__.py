"""Discovery of the resources of a server, and the mapping from kinds to resources."""
