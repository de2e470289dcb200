from .cluster_admission import ClusterAdmission as ClusterAdmission
from .options import ControlPlaneOptions as ControlPlaneOptions
from .plane import ControlPlane as ControlPlane
