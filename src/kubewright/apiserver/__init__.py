"""A library for writing Kubernetes API servers.

Declare resources, hand them to an `APIServer` over a store, and put it on a port with `serve`:

    server = APIServer(MemoryStorage())
    server.add(resource_of(Guestbook))
    async with serve(server, port=6443) as front:
        front.write_kubeconfig("kubeconfig")

`Request` and `Response` are the server's own, so that it can also be called in process.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
