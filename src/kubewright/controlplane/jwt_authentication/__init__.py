"""Users of other token issuers: `AuthenticationConfiguration` with JSON web tokens (OpenID Connect).

- `config`: the file, and the authenticators that it declares
- `oidc_options`: one issuer without a file, the `--oidc-*` flags
- `issuer_keys`: the public keys of an issuer, found by discovery
- `claims`: validation of claims, and how they become a user, by name or by CEL expression
- `authenticator`: `JWTAuthenticator`, which puts them together

    token -> issuer known? -> signature, audience, expiry -> claim rules -> user name, groups, uid, extra
          -> user rules -> User
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
