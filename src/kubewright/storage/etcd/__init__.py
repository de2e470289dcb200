"""Storage in etcd.

- `connection`: connection to etcd: URL, members, TLS, authentication and errors
- `storage`: storage in etcd, for several API servers on one state
- `watch`: A watch on etcd that survives its connection
"""
