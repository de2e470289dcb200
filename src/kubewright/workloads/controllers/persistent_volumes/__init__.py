"""Controllers of persistent volumes and claims.

- `claims`: binding and provisioning of claims; phases and reclaim policies of volumes
  (`persistentvolume-binder-controller`)
- `matching`: which volume satisfies a claim
- `provisioner`: simulated provisioning, deletion and expansion, and the default storage class
- `ephemeral`: claims of the ephemeral volumes of pods (`ephemeral-volume-controller`)

The simulated provisioner serves every storage class whose provisioner has no CSIDriver object in the cluster,
so that a CSI driver under test is not disturbed. No data is stored.
"""

from .claims import add_persistent_volume_binder_controller as add_persistent_volume_binder_controller
from .ephemeral import add_ephemeral_volume_controller as add_ephemeral_volume_controller
