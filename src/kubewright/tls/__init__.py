"""TLS for servers: certificates, cipher suites, client certificates.

    authority = CertificateAuthority.create()
    context = server_context(authority.issue("webhook", hosts=["localhost"], server=True))

- `certificates`: `CertificateAuthority`, `KeyPair`, and the TLS context of a server
- `cipher_suites`: cipher suites by their names in TLS
- `client_certificates`: client certificates that are verified after the handshake
- `self_issued`: serving certificates that OpenSSL takes for self-signed, although an authority signed them
- `system_authorities`: aiohttp reads the system's certificate authorities when it needs them
"""
