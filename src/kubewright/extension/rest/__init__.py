"""Resources whose objects come from another system.

- `backend_storage`: the storage of a kind whose objects are in another system (`Rest`)
- `rest`: resources whose objects come from another system: a computation, an SQL table, another REST API
- `testing`: tests of the contract of `Rest`, for every implementation
"""
