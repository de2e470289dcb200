"""`init_from_kubebuilder`: start a project from one of kubebuilder.

Read are the PROJECT file, `config/crd/bases`, `config/samples` and, for the report, the Go files of
controllers and webhooks. The project gets the types of all CustomResourceDefinitions, a controller and
webhooks for those of PROJECT, the samples, and `MIGRATION.md` with what each Go file becomes. The bodies of
controllers and webhooks are ported by hand. The kubebuilder project is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kubewright.api.encoding.yaml_limits import load_limited_document
from kubewright.manifests.deployment.samples import sample_file
from kubewright.scaffold.additions.crd_api import add_crd
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.files import Changes, FileWriter
from kubewright.scaffold.init import prepare_project
from kubewright.scaffold.inputs import ProjectInputs, ResourceInput, project_name
from kubewright.scaffold.layout import module_file
from kubewright.scaffold.render import COPY, render_webhook
from kubewright.scaffold.types.from_crd import CRDError, read_crds

_RECONCILER: Final = re.compile(r"func \(\w+ \*?(\w+)\) Reconcile\(")
# gofmt leaves the dot of a chained call on the line before. kubebuilder 2 wraps the kind of a watch.
_KIND: Final = r"\(\s*(?:&source\.Kind\{\s*Type:\s*)?(?:&|new\()(?:\w+\.)?(\w+)[{)]"
_FOR: Final = re.compile(rf"\bFor{_KIND}")
_OWNS: Final = re.compile(rf"\bOwns{_KIND}")
_WATCHES: Final = re.compile(rf"\bWatches{_KIND}")
_RBAC: Final = re.compile(r"\+kubebuilder:rbac:(.+)")
_WEBHOOK: Final = re.compile(
    r"func \(\w+ \*?(\w+)\) (Default|ValidateCreate|ValidateUpdate|ValidateDelete)\("
)
_TEST: Final = "_test.go"


@dataclass(frozen=True)
class KubebuilderProject:
    """The parts of a kubebuilder project that a migration reads."""

    name: str
    domain: str
    multigroup: bool
    namespaced: bool
    resources: tuple[Mapping[str, Any], ...]
    crds: tuple[Mapping[str, Any], ...]
    samples: Mapping[str, str]
    """Text of the samples, by file name."""
    go_files: Mapping[str, str]
    """Text of Go files with a controller or webhook, by path."""

    def resource(self, crd: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        """Return the entry of PROJECT for a version of a definition, or an empty one."""
        spec = crd["spec"]
        for each in self.resources:
            names = (each.get("group", ""), each.get("domain", ""))
            group = ".".join(name for name in names if name)
            if (group, each.get("kind"), each.get("version")) == (
                spec["group"],
                spec["names"]["kind"],
                version,
            ):
                return each
        return {}


def read_kubebuilder(source: Path) -> KubebuilderProject:
    """Read a kubebuilder project; raise `ScaffoldError` if the directory has none."""
    import yaml

    try:
        project = load_limited_document((source / "PROJECT").read_text(encoding="utf-8"))
    except OSError:
        raise ScaffoldError(f"{source} has no PROJECT file; name the root of a kubebuilder project") from None
    except yaml.YAMLError as error:
        raise ScaffoldError(f"{source / 'PROJECT'} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(project, dict):
        raise ScaffoldError(f"{source / 'PROJECT'} is not a PROJECT file of kubebuilder")
    crds: list[Mapping[str, Any]] = []
    for path in sorted((source / "config" / "crd" / "bases").glob("*.yaml")):
        try:
            crds += read_crds(path)
        except CRDError as error:
            raise ScaffoldError(str(error)) from None
    if not crds:
        raise ScaffoldError(f"{source}/config/crd/bases has no CRDs; run make manifests in it first")
    samples = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((source / "config" / "samples").glob("*.yaml"))
        if path.name != "kustomization.yaml"
    }
    return KubebuilderProject(
        # PROJECT files of kubebuilder 2 have no name, but the module path of Go.
        name=project.get("projectName") or project_name(Path(project.get("repo") or source)),
        domain=project.get("domain") or "example.com",
        multigroup=bool(project.get("multigroup")),
        namespaced=bool(project.get("namespaced")),
        resources=tuple(project.get("resources") or ()),
        crds=tuple(crds),
        samples=samples,
        go_files=dict(_go_files(source)),
    )


def _go_files(source: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(source.rglob("*.go")):
        relative = path.relative_to(source)
        if path.name.endswith(_TEST) or {"vendor", "bin", "test"} & set(relative.parts):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if _RECONCILER.search(text) or _WEBHOOK.search(text):
            yield relative.as_posix(), text


def init_from_kubebuilder(directory: Path, source: Path, **inputs: Any) -> Changes:
    """Create a project from a kubebuilder project; `inputs` override those of its PROJECT file."""
    found = read_kubebuilder(source)
    groups = {crd["spec"]["group"] for crd in found.crds}
    given = {name: value for name, value in inputs.items() if value}
    defaults = {
        "name": found.name,
        "domain": found.domain,
        "multigroup": found.multigroup or len(groups) > 1,
        "namespaced": found.namespaced,
    }
    writer = prepare_project(directory, ProjectInputs(**{**defaults, **given}))
    reconciled = {
        kind for text in found.go_files.values() if _RECONCILER.search(text) for kind in _FOR.findall(text)
    }
    for crd in found.crds:
        entries = [found.resource(crd, each["name"]) for each in crd["spec"]["versions"]]
        # PROJECT files of kubebuilder 2 do not declare controllers.
        has_controller = crd["spec"]["names"]["kind"] in reconciled or any(
            each.get("controller") or each.get("controllers") for each in entries
        )
        converts = any((each.get("webhooks") or {}).get("conversion") for each in entries)
        spec = {**crd["spec"], "conversion": {"strategy": "Webhook"}} if converts else crd["spec"]
        for resource in add_crd(writer, {**crd, "spec": spec}, controller=has_controller, external=False):
            _add_webhooks(writer, resource, found.resource(crd, resource.version).get("webhooks") or {})
    for name, text in _samples(found, writer.lock.project.domain).items():
        writer.keep_or_create(name, text, COPY)
    writer.create("MIGRATION.md", _report(source, found, writer), COPY)
    writer.changes.next += ["port the controllers and webhooks; see MIGRATION.md", "pytest"]
    return writer.commit()


def _add_webhooks(writer: FileWriter, resource: ResourceInput, declared: Mapping[str, Any]) -> None:
    """Add the module of the webhooks of a version; its tests depend on the fields of the type."""
    defaulting, validation = bool(declared.get("defaulting")), bool(declared.get("validation"))
    if not (defaulting or validation):
        return
    rendered = render_webhook(writer.lock.project, resource, defaulting=defaulting, validation=validation)
    for path, text in rendered.items():
        if path.startswith("src/"):
            writer.create(path, text, COPY)
    writer.lock.put(replace(resource, defaulting=defaulting, validation=validation))


def _samples(found: KubebuilderProject, domain: str) -> dict[str, str]:
    """Return the samples with the file names of the generated ones."""
    files: dict[str, str] = {}
    for text in found.samples.values():
        for document in text.split("\n---\n"):
            sample = load_limited_document(document)
            if not isinstance(sample, dict) or "/" not in str(sample.get("apiVersion")):
                continue
            group, _, version = sample["apiVersion"].partition("/")
            crd = next(
                (
                    each
                    for each in found.crds
                    if (each["spec"]["group"], each["spec"]["names"]["kind"]) == (group, sample.get("kind"))
                ),
                None,
            )
            if crd is not None:
                name = f"config/{sample_file(crd, version, domain)}"
                if name in files:
                    name = f"{name.removesuffix('.yaml')}_{len(files) + 1}.yaml"
                files[name] = document.rstrip() + "\n"
    return files


def _report(source: Path, found: KubebuilderProject, writer: FileWriter) -> str:
    modules = {each.kind: each for each in writer.lock.resources if each.controller}
    lines = [
        f"# Migration of {found.name}\n",
        f"The types are generated from the CRDs of the kubebuilder project in `{source.name}`, which was not",
        "changed. Port the Go files below, then delete this file.\n",
        "| Go file | What | Kubewright |",
        "|---|---|---|",
    ]
    for path, text in found.go_files.items():
        for what, becomes in _parts(text):
            kind = next((name for name in modules if name in what), None)
            target = (
                f"`{module_file(writer.lock.project, modules[kind], f'{modules[kind].stem}_controller')}`: "
                if kind is not None and "reconciles" in what
                else ""
            )
            lines.append(f"| `{path}` | {what} | {target}{becomes} |")
    foreign = [each for each in found.resources if each.get("external") or each.get("core")]
    for each in foreign:
        what = f"controller of {each.get('kind')} ({each.get('group') or 'core'}/{each.get('version')})"
        option = "--no-resource" if each.get("core") else "--external-type MODULE:CLASS"
        command = (
            f"kubewright create api --group {each.get('group')} --version {each.get('version')} "
            f"--kind {each.get('kind')} {option}"
        )
        lines.append(f"| PROJECT | {what} | `{command}` |")
    rules = sorted({rule.strip() for text in found.go_files.values() for rule in _RBAC.findall(text)})
    if rules:
        lines += [
            "",
            "## Permissions",
            "",
            "Rules for reconciled, owned and watched kinds follow from the decorators; declare the others:",
            "",
        ]
        lines += ["```text", *(f"{_rbac(rule)}," for rule in rules), "```"]
    return "\n".join(lines) + "\n"


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Return what a Go file contains and what it becomes."""
    for reconciler in _RECONCILER.findall(text):
        kind = next(iter(_FOR.findall(text)), reconciler.removesuffix("Reconciler"))
        arguments = [kind]
        owned, watched = _OWNS.findall(text), _WATCHES.findall(text)
        if owned:
            arguments.append(f"owns=({', '.join(owned)},)")
        if watched:
            arguments.append(f"watches=[... {', '.join(watched)}]")
        yield f"`{reconciler}` reconciles {kind}", f"`@operator.reconcile({', '.join(arguments)})`"
    for owner, method in _WEBHOOK.findall(text):
        kind = re.sub(r"Custom(Defaulter|Validator)$", "", owner)
        if method == "Default":
            yield f"`{owner}.Default`", f"`@operator.default({kind})`"
        else:
            verb = method.removeprefix("Validate").lower()
            yield f"`{owner}.{method}`", f'`@operator.validate({kind}, on=("{verb}",))`'


def _rbac(marker: str) -> str:
    """Return an RBAC marker as a declaration."""
    arguments = dict(part.split("=", 1) for part in marker.split(",") if "=" in part)
    names = {
        "groups": "groups",
        "resources": "resources",
        "verbs": "verbs",
        "resourceNames": "resource_names",
    }
    words = []
    for key, name in names.items():
        if key in arguments:
            items = [item.strip('"') or "core" for item in arguments[key].strip('"').split(";")]
            quoted = ", ".join(f'"{item}"' for item in items)
            words.append(f"{name}=({quoted}{',' if len(items) == 1 else ''})")
    return f"Rbac({', '.join(words)})"
