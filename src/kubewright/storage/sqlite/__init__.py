"""Storage in a SQLite file.

- `high_water_mark`: the highest acknowledged revision, in a file beside the database
- `logfile`: the file of a SQLite store: an append-only table of changes
- `rows`: rows of the table of changes: their layout, their checksums, and the state that they add up to
- `storage`: storage in a SQLite file, served from memory
- `store_lock`: the lock of a SQLite store: one server at a time has the file open
"""
