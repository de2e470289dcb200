"""The scheduling framework: plug-ins, profiles and what plug-ins use.

- `cluster_events`: cluster events and queueing hints: which changes can make a rejected pod schedulable
- `cycle_state`: `CycleState`: data that the plug-ins of one scheduling cycle share
- `framework`: `Framework`: runs the plug-ins of one profile at the extension points
- `handle`: `Handle`: what a plug-in can use of the scheduler
- `listers`: read objects of informers without awaiting, for plug-ins
- `plugin`: `Plugin`: the extension points of the scheduling framework
- `profile`: `Profile`: a scheduler name with its plug-ins, their weights and arguments
- `status`: `Status`: the result of a plug-in, and `FitError`: why no node fits a pod
- `waiting_pods`: pods that Permit plug-ins have delayed
"""
