"""The storage of one process for other processes of the machine.

- `messages`: messages between `StorageServer` and `SocketStorage`, and their frames
- `server`: `StorageServer`: lets other processes use a memory or SQLite storage of this process
- `shared_revision`: A revision that several processes of a machine share
- `storage`: `SocketStorage`: the storage of another process of this machine, read from a copy in this process
"""
