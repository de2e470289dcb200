"""The words that everything else is said in: objects and their parts, names, selectors, errors.

In layers, lowest first:

- `gvk`, `model`, `meta`, `times`, `quantity`, `raw`, `int_or_string`: what objects consist of
- `codec`, `scheme`: between bytes and objects; `unstructured`, `partials`: objects without a class
- `markers`, `declare`: how you describe your own kinds
- `names`, `selectors`, `fields`, `jsonpath`, `paths`: small languages
- `conditions`, `owners`, `finalizers`: the habits of controllers
- `errors`, `field_errors`: what goes wrong
- one package per API group (`apps.v1`, `core.v1`, ...): the built-in kinds; `builtin`: what is served of them

Every public name can be imported from here; its module is loaded at first use.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
