"""Write the reference of options, `docs/options.md`, from the model of options.

python tools/generate_options.py           # writes the page
python tools/generate_options.py --check   # exits with 1 if the page is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from kubewright.cli.clusters.up_options import ProcessOptions, UpOptions
from kubewright.controlplane.options import EmbeddingOptions, ShutdownOptions
from kubewright.options.model import Option, concerns, options_of

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
INTRODUCTION = """\
# Options of the control plane

<!-- Written by tools/generate_options.py from the model of options; do not edit. -->

Set an option of the control plane with a flag of `kubewright up`, in a config file, with a flag of the
`kube-apiserver` of [`kubewright envtest`](envtest.md), or as a keyword argument of `ControlPlane`,
`start_test_server` and the pytest marker `control_plane`. All of them come from one model, so an option has
the same meaning everywhere.

```yaml title="up.yaml"
port: 6443
store: sqlite:cluster.db
feature-gates:
  WatchList: false
service-node-port-range: 31000-31999
disable-admission-plugins: [ServiceAccount]
```

```console
$ kubewright up --config up.yaml --port 6444 --quiet --ready-file ready &
$ cat ready
https://127.0.0.1:6444
$ kubewright up --config bad.yaml
Error: bad.yaml:1: unknown option 'stroe'; did you mean store? see kubewright up --help
```

- A flag takes precedence over the config file, and the config file over the default. A flag or key that is
  given replaces the whole value: lists are not joined.
- Keys of the config file are the names of the flags of `kubewright up`, without `--`. Values have the form
  of flags; lists can be YAML lists, and pairs a YAML mapping. Relative paths refer to the current
  directory. A file that other users can write is rejected.
- Boolean options of `kubewright up` have the forms `--name`, `--no-name` and `--name=false`.
- A flag of kube-apiserver with another name is an error that names the option: `No such option
  --secure-port; use --port`.
- The `kube-apiserver` of `kubewright envtest` has the defaults of kube-apiserver for the address
  (`0.0.0.0:6443`), the authorization mode (`AlwaysAllow`) and the directory of certificates
  (`/var/run/kubernetes`).
- Python has no simulated node by default (`nodes=0`), and writes the kubeconfig to a temporary directory.
"""


def page() -> str:
    """Return the page."""
    return INTRODUCTION + "".join(
        f"\n{text}" for concern in concerns(UpOptions) for text in _section(concern)
    )


def _section(concern: type) -> Iterator[str]:
    title, _, about = (concern.__doc__ or "").splitlines()[0].partition(": ")
    yield f"## {title}\n\n{about[:1].upper()}{about[1:]}\n"
    if concern is EmbeddingOptions:
        names = ", ".join(f"`{each.name}`" for each in fields(concern))
        yield f"Keyword arguments of `ControlPlane`: {names}.\n"
        return
    has_python = concern not in (ProcessOptions, ShutdownOptions)
    rows = [
        "| `kubewright up`, config file | kube-apiserver | Python | Default | Meaning |",
        "|---|---|---|---|---|",
        *(_row(one, has_python) for one in options_of(UpOptions) if one.concern is concern),
    ]
    yield "\n".join(rows) + "\n"


def _row(one: Option, has_python: bool) -> str:
    metavar = f" {one.kind.metavar}".replace("|", "\\|").rstrip()
    python = f"`{one.keyword}`" if has_python else ""
    flag = f"`--{one.flag}`" if one.flag else ""
    default = one.default_text
    shown = default if one.shown_default else f"`{default}`" if default else ""
    help_text = one.help.replace("|", "\\|").replace("*", "\\*")
    return f"| `--{one.name}{metavar}` | {flag} | {python} | {shown} | {help_text} |"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE} is not up to date; run python tools/generate_options.py")
    else:
        PAGE.write_text(page())
