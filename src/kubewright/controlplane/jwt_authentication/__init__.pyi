from .authenticator import JWTAuthenticator as JWTAuthenticator
from .config import AuthenticationSettings as AuthenticationSettings
from .config import load_authentication_config as load_authentication_config
from .oidc_options import OIDCOptions as OIDCOptions

__all__ = ["AuthenticationSettings", "JWTAuthenticator", "OIDCOptions", "load_authentication_config"]
