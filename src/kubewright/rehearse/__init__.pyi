from kubewright.recording.redaction import Redactor as Redactor

from .export_files import read_export as read_export
from .export_files import write_export as write_export
from .rehearsal import OperatorError as OperatorError
from .rehearsal import Rehearsal as Rehearsal
from .rehearsal import RehearsedCluster as RehearsedCluster
from .replays.checks import ReplayViolation as ReplayViolation
from .replays.pytest_module import check_recording as check_recording
from .replays.replayer import ReplayedRecording as ReplayedRecording
from .replays.replayer import replay_recording as replay_recording
from .snapshot import ClusterSnapshot as ClusterSnapshot
from .snapshot import ObjectName as ObjectName
from .snapshot import SnapshotError as SnapshotError
from .snapshot_storage import LoadedSnapshot as LoadedSnapshot
from .snapshot_storage import load_snapshot as load_snapshot
