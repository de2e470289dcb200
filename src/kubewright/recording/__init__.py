"""Recordings: what happened to the objects of a cluster, and what an operator did, without secret values.

    recording = read_recording("incident.recording.gz")
    recording.objects, recording.changes, recording.reconciles

`kubewright record` writes one from lists and watches; an operator writes one of its last minutes when it is
asked to (`RecordingRing`). `kubewright replay` runs an operator on it.

- `recording`: `Recording`, the objects at the start, the changes and the reconciles
- `recording_files`: the files of recordings
- `redaction`: `Redactor`, stable placeholders for secret values
- `change_log`: `ChangeLog`, the last changes of informers
- `cluster_recorder`: `ClusterRecorder`, which records lists and watches
- `ring`: `RecordingRing`, the last minutes of an operator
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
