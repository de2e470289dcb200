"""The admission plug-ins of Kubernetes, one a file.

`default_plugins` makes those that are on by default, in their order. Each looks at live objects in process:
a policy or a quota works from the moment it is stored.
"""

from __future__ import annotations
