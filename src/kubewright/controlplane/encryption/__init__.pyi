from .config import EncryptionRules as EncryptionRules
from .config import load_encryption_config as load_encryption_config
from .storage import EncryptedStorage as EncryptedStorage

__all__ = ["EncryptedStorage", "EncryptionRules", "load_encryption_config"]
