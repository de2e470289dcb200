from .plane import ControlPlane as ControlPlane
