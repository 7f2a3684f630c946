"""`kubectl demarkus` against a real control plane: it reads, shows, and writes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cluster.home import BUDGET, EXAMPLE, Home

PLUGIN = Path(sys.executable).parent / "kubectl-demarkus"


def run(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PLUGIN, *arguments, "--kubeconfig", home.plane.kubeconfig, "-n", home.namespace]
    return subprocess.run(command, capture_output=True, text=True, timeout=BUDGET)


async def test_plan_of_manifests_says_what_would_be_made_and_makes_nothing(home: Home) -> None:
    before = await home.versions()
    done = run(home, "plan", "-f", str(EXAMPLE))
    assert done.returncode == 4, done.stderr
    assert f"create  StatefulSet {home.namespace}/handbook-world" in done.stdout.splitlines()
    assert await home.versions() == before


async def test_plan_after_the_operator_is_done_is_empty(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    await operator.stop()
    for arguments in ((), ("-f", str(EXAMPLE))):
        done = run(home, "plan", *arguments)
        assert (done.returncode, done.stdout) == (0, "Nothing would be written.\n"), done.stdout + done.stderr


async def test_plan_shows_what_somebody_changed_by_hand_and_never_what_is_secret(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    secret = json.loads(home.kubectl("get", "secret", "packages-token-importer", "--output=json"))["data"]["token"]
    await operator.stop()
    home.kubectl("patch", "deployment/acme-broker", "--type=merge", "--patch", '{"spec":{"replicas":7}}')
    home.kubectl("patch", "secret/packages-tokens", "--type=merge", "--patch", '{"data":{"tokens.toml":""}}')
    done = run(home, "plan")
    assert done.returncode == 4
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "- spec.replicas: 7" in lines
    assert "+ spec.replicas: 2" in lines
    assert "+ data.tokens.toml: (secret)" in lines
    shown = run(home, "plan", "--json").stdout
    assert json.loads(shown)["steps"]
    assert secret not in shown + done.stdout


async def test_plan_of_a_change_that_is_refused_names_the_field(home: Home, tmp_path: Path) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    await operator.stop()
    world = json.loads(home.kubectl("get", "world/handbook", "--output=json"))
    world["spec"]["store"]["volume"]["size"] = "64Mi"
    file = tmp_path / "smaller.json"
    file.write_text(
        json.dumps({key: world[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "handbook"}})
    )
    done = run(home, "plan", "-f", str(file))
    assert done.returncode == 2
    assert "a volume can't shrink" in done.stderr


async def test_status_and_token_ask_the_cluster(home: Home) -> None:
    assert run(home, "status").returncode == 3
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    await operator.stop()
    done = run(home, "status")
    assert done.returncode == 1  # no kubelet: nothing gets ready
    rows = [line.split()[:5] for line in done.stdout.splitlines()]
    assert ["World", home.namespace, "handbook", "False", "Starting"] in rows
    facts = json.loads(run(home, "status", "--json").stdout)
    assert {one["name"] for one in facts} == {"acme", "handbook", "packages"}
    token = run(home, "token", "packages")
    assert (token.returncode, len(token.stdout.strip())) == (0, 64)
    assert run(home, "token", "packages", "nobody").returncode == 2


def test_no_access_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [PLUGIN, "status", "--kubeconfig", tmp_path / "none"], capture_output=True, text=True, timeout=BUDGET
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: no access to a cluster by KUBECONFIG")
