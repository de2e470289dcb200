"""Replays: the recorded history of a cluster with its timing, and an operator, in virtual time.

    replay = replay_recording(read_recording("shop.recording.gz"), ModuleFactory("shop:operator"))
    replay.violations, replay.differences

- `attribution`: which client has made a change
- `inputs`: what is repeated: the recorded changes without those of the operator
- `input_writer`: writes the inputs to the storage of a control plane
- `history`: `ReplayHistory`, what happened in a replay: changes, reconciles and queues
- `replayer`: `replay_recording`: runs an operator on a recording
- `checks`: what must hold at the end of every replay
- `comparison`: where this version acts differently from the recorded one
- `moments`: the steps of a replay as plain data, for a time slider
- `shrinking`: the fewest objects and changes that still violate a check
- `pytest_module`: writes a replay as a test
- `exploration`: a scenario of `kubewright explore` that starts at a moment of a recording
- `html`, `text`: reports
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
