"""The chart says what the operator needs, no more, and nothing that differs from one rendering to the next."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.api.crd import definitions
from demarkus_operator.cluster import rbac
from demarkus_operator.main import main
from dev import chart

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "a" * 64

Render = Callable[..., list[dict[str, Any]]]
Run = Callable[..., subprocess.CompletedProcess[str]]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = of_kind(objects, "Deployment")
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("file", chart.files(), ids=lambda file: file.name)
def test_generated_files_are_up_to_date(file: Path) -> None:
    assert file.read_text() == chart.files()[file], "run: make chart"


def test_versions_are_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (project, project)


def test_every_value_is_explained() -> None:
    text = (chart.CHART / "values.yaml").read_text()
    explained = {value.path for value in chart.values(text)}

    def leaves(values: dict[str, Any], path: str = "") -> set[str]:
        found = set()
        for name, value in values.items():
            here = f"{path}.{name}".lstrip(".")
            nested = isinstance(value, dict) and value and here not in chart.FREE
            found |= leaves(value, here) if nested else {here}
        return found

    assert leaves(yaml.safe_load(text)) <= explained


def test_lint_has_nothing_to_say(run: Run) -> None:
    done = run("lint", "--strict", chart.CHART)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_renderings_are_equal(render: Render) -> None:
    assert render() == render()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("replica=3", "replica"),
        ("replicas=0", "replicas"),
        ('logLevel="loud"', "logLevel"),
        ('watchNamespaces="team-a"', "watchNamespaces"),
        ('watchNamespaces=["Team A"]', "watchNamespaces"),
        ('image.digest="latest"', "digest"),
        ("crds.kept=false", "kept"),
        ('podLabels={"team":1}', "podLabels"),
    ],
)
def test_a_value_that_can_not_be_is_refused(run: Run, value: str, complaint: str) -> None:
    done = run("template", "operator", chart.CHART, f"--set-json={value}")
    assert done.returncode != 0
    assert complaint in done.stderr


def test_crds_are_those_of_the_models_and_stay(render: Render) -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in of_kind(render(), "CustomResourceDefinition")}
    assert {name: crd["spec"] for name, crd in rendered.items()} == {
        crd["metadata"]["name"]: crd["spec"] for crd in definitions().values()
    }
    assert all(crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for crd in rendered.values())


def test_crds_can_go_or_come_another_way(render: Render) -> None:
    going = of_kind(render("crds.keep=false"), "CustomResourceDefinition")
    assert going
    assert not any("annotations" in crd["metadata"] for crd in going)
    assert not of_kind(render("crds.enabled=false"), "CustomResourceDefinition")


def test_rights_on_the_whole_cluster_are_those_of_the_code(render: Render) -> None:
    objects, rules = render(), rbac.rules()
    (cluster_role,) = of_kind(objects, "ClusterRole")
    (role,) = of_kind(objects, "Role")
    assert cluster_role["rules"] == rules["watched"] + rules["cluster"]
    assert (role["metadata"]["namespace"], role["rules"]) == ("demarkus-system", rules["own"])
    for binding in of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding"):
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "demarkus-operator", "namespace": "demarkus-system"}
        ]


def test_named_namespaces_need_nothing_of_the_cluster(render: Render) -> None:
    objects, rules = render('watchNamespaces=["team-a","team-b"]'), rbac.rules()
    assert not of_kind(objects, "ClusterRole")
    assert not of_kind(objects, "ClusterRoleBinding")
    roles = {role["metadata"]["namespace"]: role["rules"] for role in of_kind(objects, "Role")}
    assert roles == {"team-a": rules["watched"], "team-b": rules["watched"], "demarkus-system": rules["own"]}
    bound = {(one["metadata"]["namespace"], one["roleRef"]["name"]) for one in of_kind(objects, "RoleBinding")}
    assert bound == {(role["metadata"]["namespace"], role["metadata"]["name"]) for role in of_kind(objects, "Role")}
    assert [one for one in container(objects)["args"] if "namespace" in one] == [
        "--watch-namespace=team-a",
        "--watch-namespace=team-b",
    ]


def test_no_rule_has_a_wildcard_or_lists_secrets(render: Render) -> None:
    for role in of_kind(render(), "ClusterRole") + of_kind(render(), "Role"):
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
            if "secrets" in rule["resources"]:
                assert not {"list", "watch"} & set(rule["verbs"])


def test_arguments_are_known_to_the_operator(render: Render) -> None:
    known = {name for option in main.params for name in option.opts}
    given = container(render('watchNamespaces=["team-a"]'))["args"]
    assert {argument.partition("=")[0] for argument in given} <= known


def test_a_digest_wins_over_a_tag(render: Render) -> None:
    assert container(render())["image"] == "demarkus/operator:0.1.0"
    assert container(render('image.tag="2"'))["image"] == "demarkus/operator:2"
    assert container(render('image.tag="2"', f'image.digest="{DIGEST}"'))["image"] == f"demarkus/operator@{DIGEST}"


def test_pods_meet_the_restricted_standard(render: Render) -> None:
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    security = container(render())["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_labels_of_users_never_replace_ours(render: Render) -> None:
    (deployment,) = of_kind(render('podLabels={"team":"a","app.kubernetes.io/name":"b"}'), "Deployment")
    template = deployment["spec"]["template"]["metadata"]["labels"]
    assert template["team"] == "a"
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template.items()


def test_a_single_operator_has_no_budget_that_would_hold_up_a_drain(render: Render) -> None:
    assert of_kind(render(), "PodDisruptionBudget")
    assert not of_kind(render("replicas=1"), "PodDisruptionBudget")


def test_prometheus_objects_only_on_request(render: Render) -> None:
    assert not of_kind(render(), "PodMonitor")
    (monitor,) = of_kind(render("podMonitor.enabled=true", 'podMonitor.labels={"release":"p"}'), "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "p"
