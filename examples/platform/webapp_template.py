"""The WebApp of `webapp.py`, composed by a template with CEL expressions: `webapp.yaml`."""

from pathlib import Path

from webapp import WebApp

from kubewright import Operator

operator = Operator("platform-templates")
operator.compose_template(WebApp, Path(__file__).with_name("webapp.yaml"))
