"""Transports: how bytes reach an API server.

- `cbor`: `CBORTransport`: negotiate CBOR with the server; the client above it sends and receives JSON
- `gzip_stream`: `GzipStream`: a streamed response with `Content-Encoding: gzip`, decompressed as it arrives
- `headers`: headers as bytes: the only place that writes the head of an HTTP message by hand
- `http`: `HTTPTransport`: a pool of HTTP/1.1 connections to one server
- `http1`: `Connection`: the client side of one HTTP/1.1 connection, limited to what API servers use
- `interface`: `Transport`: the interface between the client and a connection to an API server
- `proxy`: connections through a proxy: choose the proxy, and open a tunnel
- `websocket`: WebSockets over the network, for exec, attach and port-forward
"""
