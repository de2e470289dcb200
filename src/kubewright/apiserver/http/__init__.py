"""HTTPS server: connections, requests and responses.

- `http2`, `http2_stream`: HTTP/2 connections and their streams.
- `messages`: `HTTPRequest` and `HTTPResponse`, independent of the HTTP library.
- `ports`: whether a port is in use, and errors that name the address.
- `request_info`: verb, group, version, resource and name of a request URL.
- `server`: `HTTPServer`, an `APIServer` on a TLS port.
- `upgrade`: connections that leave HTTP after a 101 response.
- `connection`: connections of the HTTPS server, and the loop of their requests
- `responses`: heads and bodies of responses on a connection
- `unknown_methods`: HTTP methods that the parser does not know
"""

from kubewright.tls.system_authorities import import_aiohttp

import_aiohttp()
