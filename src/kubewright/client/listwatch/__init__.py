"""Lists and watches of collections: pages, resumable watches, and their raw bytes for caches."""
