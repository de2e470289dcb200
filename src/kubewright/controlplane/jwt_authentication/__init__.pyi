from .authenticator import JWTAuthenticator as JWTAuthenticator
from .config import AuthenticationSettings as AuthenticationSettings
from .config import load_authentication_config as load_authentication_config

__all__ = ["AuthenticationSettings", "JWTAuthenticator", "load_authentication_config"]
