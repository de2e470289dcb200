"""`kubewright create api --template`: from a folder of templates to manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from .in_process import kubewright

TEMPLATE = """\
{% if spec.enabled %}
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ name }}}
{% endif %}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "database.yaml.j2").write_text(TEMPLATE)
    (tmp_path / "templates" / "values.yaml").write_text("enabled: false\nsize: 3\n")
    done = kubewright(tmp_path, "init", "--domain", "example.com", "--name", "data")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_crd_sample_and_permissions_follow_from_the_templates(project: Path) -> None:
    arguments = ("--template", "templates", "--group", "db", "--kind", "Database")
    done = kubewright(project, "create", "api", *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    changes = json.loads(done.stdout)
    assert changes["warnings"] == []
    assert "src/data/templates/database/database.yaml.j2" in changes["created"]
    [crd] = yaml.safe_load_all((project / "config/crd/db.example.com_databases.yaml").read_text())
    [version] = crd["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"] == {
        "enabled": {"type": "boolean", "default": False},
        "size": {"type": "integer", "format": "int64", "default": 3},
    }
    roles = list(yaml.safe_load_all((project / "config/rbac/role.yaml").read_text()))
    granted = [rule for role in roles if role["kind"] == "ClusterRole" for rule in role["rules"]]
    assert {"create", "delete", "list", "watch"} <= {
        verb for rule in granted if "statefulsets" in rule.get("resources", ()) for verb in rule["verbs"]
    }
    sample = yaml.safe_load((project / "config/samples/db_v1alpha1_database.yaml").read_text())
    assert sample["spec"] == {"enabled": False, "size": 3}
    assert kubewright(project, "manifests", "--check").returncode == 0


def test_options_that_exclude_each_other(project: Path) -> None:
    done = kubewright(project, "create", "api", "--template", "templates", "--kind", "A", "--image", "nginx")
    assert done.returncode == 2
    assert "--template excludes --image" in done.stderr
    done = kubewright(
        project, "create", "api", "--template", "missing", "--kind", "Database", "--group", "db"
    )
    assert (done.returncode, done.stderr) == (1, "Error: the template folder missing does not exist\n")
