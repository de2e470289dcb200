from .checks import CHECKS as CHECKS
from .checks import ReplayViolation as ReplayViolation
from .comparison import Difference as Difference
from .pytest_module import check_recording as check_recording
from .pytest_module import create_pytest_module as create_pytest_module
from .replayer import ReplayedRecording as ReplayedRecording
from .replayer import replay_recording as replay_recording
from .shrinking import Shrinker as Shrinker
