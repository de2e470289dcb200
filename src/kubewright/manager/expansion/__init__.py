"""Kinds whose objects expand to other objects: graphs and templates.

- `composed_kinds`: kinds whose objects expand to a graph of other objects: the controller behind
  `Operator.compose`
- `injected_structure`: whether values of an object have changed the structure of what templates render to
- `rendered_kinds`: kinds whose objects expand to other objects by templates: the controller behind
  `Operator.render`
- `set_status`: the status of an object that expands to a set of other objects
- `template_folder`: `TemplateFolder`: manifests from a folder of Jinja templates, or from a Helm chart
"""
