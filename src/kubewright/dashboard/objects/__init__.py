"""Views of the objects of a cluster.

- `history`: versions of the objects that are looked at, from the moment they are first requested
- `object_index`: identity, owners and health of all objects of a cluster, in memory while the dashboard is
  used
- `object_queries`: queries over all kinds of the index: by words, and by health
- `object_records`: what the dashboard stores of an object: identity, owners, health and troubles
- `owner_tree`: the tree of owners and owned objects around one object
- `readable_namespaces`: find out where the user of a client can list a kind
- `troubles`: what an object reports about itself that someone should look at, besides its health
- `warning_events`: the latest Warning events of a cluster, from a watch with a field selector
"""
