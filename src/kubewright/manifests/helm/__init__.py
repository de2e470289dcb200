"""A Helm chart of an operator, from its types and settings.

    chart = build_chart(settings, tree, namespaced_tree, version="1.0.0")

- `chart`: the files of the chart; the folder `templates` has those with a fixed text: values, helpers, the
  Deployment
"""

from __future__ import annotations

from .chart import Chart, build_chart

__all__ = ["Chart", "build_chart"]
