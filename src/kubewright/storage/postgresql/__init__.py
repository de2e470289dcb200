"""Storage in PostgreSQL.

- `connection`: connections to PostgreSQL: settings of a session, retries and errors
- `options`: address and options of a PostgreSQL database, from a URL
- `schema`: tables, functions and statements of the storage in PostgreSQL
- `storage`: storage in PostgreSQL, for several API servers on one state
- `watch`: watches on PostgreSQL
"""
