from .cluster_admission import ClusterAdmission as ClusterAdmission
from .plane import ControlPlane as ControlPlane
