"""A universe from YAML on one machine, through real processes: what stays, what ends, what is said."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.local.detached import stop_holder
from demarkus_operator.local.state import StateFolder

Until = Callable[..., Any]


def urls(status: dict[str, Any]) -> dict[str, str]:
    return {subject["name"]: subject["url"] for subject in status["subjects"]}


def pids(status: dict[str, Any]) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in status["processes"]}


async def test_everything_becomes_ready_and_the_bearer_opens_the_gateway(shared: Any) -> None:
    status = shared.status()
    assert status["ready"]
    assert {subject["name"]: subject["reason"] for subject in status["subjects"]} == {
        "acme": "Serving",
        "handbook": "Serving",
        "packages": "Serving",
    }
    async with shared.gateway(urls(status)["acme"]) as call:
        worlds = await call("mark_worlds")
        assert [(row["world"], row["writable"]) for row in worlds["worlds"]] == [("handbook", True), ("packages", True)]
        written = await call("mark_publish", url="mark://handbook/a.md", body="# A\n", expected_version=0)
        assert written["status"] == "created"
        assert (await call("mark_fetch", url="mark://handbook/a.md"))["body"] == "# A\n"


def test_native_clients_come_with_a_token_and_the_certificate_authority(shared: Any) -> None:
    url = urls(shared.status())["packages"]
    token = shared.run("token", "packages")
    assert token.returncode == 0
    refused = shared.mark("list", url)
    assert (refused.returncode, "unauthorized" in refused.stderr) == (1, True)
    assert shared.mark("list", url, DEMARKUS_AUTH=token.stdout.strip()).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["absent"], "there is no World default/absent"),
        (["handbook"], "has no tokens; name one in spec.tokens"),
        (["packages", "other"], "has no token other; it has: importer"),
    ],
)
def test_a_token_that_does_not_exist_is_told(shared: Any, arguments: list[str], told: str) -> None:
    done = shared.run("token", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""


def test_everything_in_the_state_folder_is_closed_to_others(shared: Any) -> None:
    paths = [shared.state, *shared.state.rglob("*")]
    # The world's store is the world's; nobody else gets to it, because the folder above is closed.
    mine = [path for path in paths if not (path / "..").resolve().is_relative_to(shared.state / "volumes")]
    opened = {
        str(path): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in mine
        if stat.S_IMODE(path.lstat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }
    assert opened == {}
    assert any(path.is_relative_to(shared.state / "objects" / "Secret") for path in mine)


def test_configuration_differs_from_the_plans_in_paths_and_addresses_only(shared: Any) -> None:
    for kind, name, pod, file, fields in (
        ("ConfigMap", "packages-world-config", "packages-world", "world.yaml", {"identity", "store", "tls", "tokens"}),
        ("ConfigMap", "acme-broker-config", "acme-broker", "broker.yaml", {"publicURL", "keys", "caBundle", "worlds"}),
    ):
        planned = yaml.safe_load(shared.object(kind, name)["data"][file])
        folder = shared.state / "pods" / "default" / pod / "etc" / "demarkus" / "config"
        real = yaml.safe_load((folder / file).read_text())
        assert real.keys() == planned.keys()
        different = {key for key in planned if planned[key] != real[key]}
        assert different <= fields | {"listen", "keySet", "managementKeys"}
        for before, after in zip(planned.get("worlds", ()), real.get("worlds", ()), strict=True):
            assert {k: v for k, v in before.items() if k != "service"} == {
                k: v for k, v in after.items() if k != "addresses"
            }


def test_a_second_up_says_that_one_runs_and_ends(shared: Any) -> None:
    before = pids(shared.status())
    for extra in ((), ("--detach",)):
        done = shared.run("up", "-f", shared.manifests, *extra)
        assert done.returncode == 1
        assert f"a universe already runs in {shared.state}" in done.stderr
    assert pids(shared.status()) == before


def test_status_is_a_table_for_people(shared: Any) -> None:
    done = shared.run("status")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "URL"]
    assert "default/packages-world" in done.stdout


def test_a_killed_world_is_started_again_with_what_it_had(shared: Any, until: Until) -> None:
    before = shared.status()
    url = urls(before)["packages"]
    token = shared.run("token", "packages").stdout.strip()
    body = shared.folder / "body.md"
    body.write_text("# Kept\n")
    assert shared.mark("publish", f"{url}kept.md", body, DEMARKUS_AUTH=token).returncode == 0
    os.kill(pids(before)["default/packages-world"], signal.SIGKILL)

    def restarted() -> dict[str, Any] | None:
        status: dict[str, Any] = shared.status()
        (line,) = [one for one in status["processes"] if one["name"] == "default/packages-world"]
        return status if status["ready"] and line["restarts"] == 1 else None

    after = until("the world is ready again after one restart", restarted)
    assert urls(after) == urls(before)
    assert pids(after)["default/handbook-world"] == pids(before)["default/handbook-world"]
    assert shared.mark("fetch", f"{url}kept.md", DEMARKUS_AUTH=token).stdout == "# Kept\n"


async def test_after_a_killed_up_nothing_runs_and_the_next_goes_on(home: Any, until: Until) -> None:
    first = home.up()
    async with home.gateway(urls(first)["acme"]) as call:
        written = await call("mark_publish", url="mark://packages/a.md", body="# A\n", expected_version=0)
        assert written["status"] == "created"
    secrets = {path: path.read_bytes() for path in (home.state / "objects" / "Secret").rglob("*.json")}
    os.kill(first["pid"], signal.SIGKILL)
    until("nothing runs any more", lambda: not home.processes())
    assert home.run("status").returncode == 3
    assert home.run("down").stdout == f"Nothing runs in {home.state}.\n"

    second = home.up()
    assert urls(second) == urls(first)
    os.kill(second["pid"], signal.SIGKILL)
    third = home.up()  # at once: the children of the second may still be on their way out
    assert urls(third) == urls(first)
    assert {path: path.read_bytes() for path in (home.state / "objects" / "Secret").rglob("*.json")} == secrets
    async with home.gateway(urls(third)["acme"]) as call:
        assert (await call("mark_fetch", url="mark://packages/a.md"))["body"] == "# A\n"


def test_ctrl_c_ends_everything_in_order(home: Any, until: Until) -> None:
    with home.popen() as up:
        until("it is ready", lambda: up.poll() is not None or home.run("status").returncode == 0)
        os.killpg(up.pid, signal.SIGINT)
        output, _ = up.communicate(timeout=60)
    assert up.returncode == 0, output
    assert output.endswith("Stopping.\nStopped.\n")
    assert "Traceback" not in output
    assert home.processes() == []
    assert '"message": "stopped"' in (home.state / "logs" / "default" / "packages-world.log").read_text()


def test_a_terminal_that_is_closed_ends_everything_in_order(home: Any, until: Until) -> None:
    with home.popen() as up:
        until("it is ready", lambda: up.poll() is not None or home.run("status").returncode == 0)
        assert up.stdout is not None
        up.stdout.close()
        os.kill(up.pid, signal.SIGHUP)
        assert up.wait(timeout=60) == 0
    assert home.processes() == []


def test_down_ends_an_up_that_does_not_listen_and_waits_for_its_processes(home: Any) -> None:
    os.kill(home.up()["pid"], signal.SIGSTOP)
    assert stop_holder(StateFolder.at(home.state), patience=0.2)
    assert home.processes() == []


def test_a_second_ctrl_c_ends_at_once_what_does_not_end_by_itself(home: Any, until: Until) -> None:
    with home.popen() as up:
        until("it is ready", lambda: up.poll() is not None or home.run("status").returncode == 0)
        os.kill(pids(home.status())["default/packages-world"], signal.SIGSTOP)
        os.killpg(up.pid, signal.SIGINT)
        assert up.stdout is not None
        while up.stdout.readline() not in ("Stopping.\n", ""):
            pass
        os.killpg(up.pid, signal.SIGINT)
        output, _ = up.communicate(timeout=60)
    assert (up.returncode, output) == (0, "Stopped.\n")
    assert home.processes() == []


def test_a_world_that_is_not_declared_any_more_stops_and_finds_its_documents_when_it_comes_back(home: Any) -> None:
    url = urls(home.up())["packages"]
    token = home.run("token", "packages").stdout.strip()
    body = home.folder / "body.md"
    body.write_text("# Kept\n")
    assert home.mark("publish", f"{url}kept.md", body, DEMARKUS_AUTH=token).returncode == 0
    home.down()

    manifest = (home.manifests / "packages.yaml").read_text()
    (home.manifests / "packages.yaml").unlink()
    assert set(urls(home.up())) == {"acme", "handbook"}
    kinds = {path.parts[-3] for path in home.state.glob("objects/*/default/packages*.json")}
    assert kinds == {"Secret", "PersistentVolumeClaim"}
    assert not (home.state / "pods" / "default" / "packages-world").exists()
    home.down()

    (home.manifests / "packages.yaml").write_text(manifest)
    url = urls(home.up())["packages"]
    assert home.run("token", "packages").stdout.strip() == token
    assert home.mark("fetch", f"{url}kept.md", DEMARKUS_AUTH=token).stdout == "# Kept\n"


def test_a_broken_manifest_names_file_line_and_field_and_nothing_is_made(home: Any) -> None:
    lines = (home.manifests / "packages.yaml").read_text().splitlines()
    wrong = lines.index("  reads: universe")
    lines[wrong] = "  reads: everybody"
    (home.manifests / "packages.yaml").write_text("\n".join(lines))
    done = home.run("up", "-f", home.manifests)
    assert done.returncode == 2
    assert f"{home.manifests}/packages.yaml:{wrong + 1}: spec.reads: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not home.state.exists()


def test_a_world_that_can_not_start_is_tried_again_and_told(home: Any, until: Until) -> None:
    volume = home.state / "volumes" / "default" / "packages-data"
    volume.mkdir(parents=True)
    (volume / "world").write_text("not a folder")
    with home.popen() as up:

        def told() -> Any:
            done = home.run("status", "--json")
            lines = json.loads(done.stdout)["processes"] if done.returncode == 1 and done.stdout else []
            return [line for line in lines if line["name"] == "default/packages-world" and line["restarts"] > 1]

        (line,) = until("two restarts were counted", told)
        os.killpg(up.pid, signal.SIGINT)
        output, _ = up.communicate(timeout=60)
    assert "world" in line["last_words"]
    assert "process default/packages-world: ended (" in output
    assert "World default/packages: Starting" in output


def test_a_detached_up_that_can_not_become_ready_says_why_and_leaves_nothing_running(home: Any) -> None:
    manifest = yaml.safe_load((home.manifests / "handbook.yaml").read_text())
    manifest["metadata"]["namespace"] = "elsewhere"
    manifest["spec"]["universeRef"]["namespace"] = "default"
    (home.manifests / "handbook.yaml").write_text(yaml.safe_dump(manifest))
    done = home.run("up", "-f", home.manifests, "--detach")
    assert done.returncode == 1
    assert "World elsewhere/handbook: NamespaceNotAllowed" in done.stderr
    assert home.processes() == []


async def test_the_bearer_names_whom_as_says(home: Any) -> None:
    status = home.up("--as", "eve@elsewhere.example")
    assert status["person"] == "eve@elsewhere.example"
    async with home.gateway(urls(status)["acme"]) as call:
        worlds = await call("mark_worlds")
        assert [row["writable"] for row in worlds["worlds"]] == [False, False]


async def test_a_port_that_somebody_took_is_replaced_and_the_gateway_follows(home: Any) -> None:
    before = urls(home.up())
    home.down()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", int(before["packages"].rpartition(":")[2].strip("/"))))
        after = urls(home.up())
    assert after["packages"] != before["packages"]
    assert (after["handbook"], after["acme"]) == (before["handbook"], before["acme"])
    async with home.gateway(after["acme"]) as call:
        assert (await call("mark_list", url="mark://packages/"))["status"] == "ok"


def test_a_world_without_a_universe_runs_alone(home: Any) -> None:
    (home.manifests / "universe.yaml").unlink()
    (home.manifests / "handbook.yaml").unlink()
    home.change("packages.yaml", universeRef=None, reads="public", access=None, tokens=None)
    status = home.up()
    assert home.mark("list", urls(status)["packages"]).returncode == 0
    assert not (home.state / "bearer").exists()


def test_credentials_are_in_no_log(shared: Any) -> None:
    secret = shared.object("Secret", "packages-token-importer")["data"]["token"]
    token = base64.b64decode(secret).decode()
    bearer = (shared.state / "bearer").read_text().strip()
    written = "".join(path.read_text() for path in (shared.state / "logs").rglob("*") if path.is_file())
    written += (shared.state / "status.json").read_text()
    assert token not in written
    assert bearer not in written
    assert bearer.rpartition(".")[2] not in written


def test_crds_are_written_as_they_are_checked_in(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [Path(sys.executable).with_name("demarkus"), "crds", "--output", tmp_path / "crds"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    written = {path.name: path.read_text() for path in (tmp_path / "crds").iterdir()}
    assert written == {path.name: path.read_text() for path in (root / "crds").iterdir()}
