"""The suite itself: profiles, options, what is skipped for want of a token, and what is left behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.answers import entries
from tests.conformance.prepare import main, new_base, new_tokens, profile_file, token_file
from tests.conformance.profile import ROLES, ProfileError, from_toml
from tests.conformance.server import Server, eventually, request
from tests.conformance.wire import DEADLINE, Wire

ROOT = Path(__file__).parents[2]

rule = pytest.mark.rule


class TestProfiles:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("host = 'h'\nbase = '/b'", "name the certificates to trust with ca, or say insecure = true"),
            ("host = 'h'\nbase = '/b'\ninsecure = true\nca = 'x'", "name the certificates to trust with ca"),
            ("host = 'h'\nbase = '/b'\nca = 'nowhere.pem'", "ca: nowhere.pem: No such file or directory"),
            ("host = 'h'\ninsecure = true", "base: expected a path"),
            ("base = '/b'\ninsecure = true", "host: expected a name or an address"),
            ("host = 'h'\nport = 70000\nbase = '/b'\ninsecure = true", "port: expected a UDP port"),
            ("host = 'h'\nbase = '/b'\ninsecure = true\nreads = 'x'", "reads: expected public or private"),
            ("host = 'h'\nbase = '/b'\ninsecure = true\ncolour = 'x'", "colour: no such key"),
            ("host = 'h'\nbase = '/b'\ninsecure = true\n[tokens]\nking = 'x'", "tokens.king: no such role"),
            ("host = 'h'\nbase = '/b'\ninsecure = true\n[read-only]\nport = 1", "read-only.host: expected a name"),
            ("host", "profile.toml: "),
        ],
    )
    def test_a_profile_that_cannot_be_used_says_why(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(ProfileError, match=re.escape(message)):
            from_toml(text, source="profile.toml", folder=tmp_path)

    def test_what_prepare_writes_fits_together(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", ["prepare", str(tmp_path / "made"), "--alone"])
        main()
        text = (tmp_path / "made" / "profile.toml").read_text()
        profile = from_toml(text, source="profile.toml", folder=tmp_path, host="mark.example.com", port=443)
        assert (profile.endpoint.host, profile.endpoint.port) == ("mark.example.com", 443)
        assert set(profile.tokens) == set(ROLES)
        tokens = (tmp_path / "made" / "tokens.toml").read_text()
        assert not [raw for raw in profile.tokens.values() if raw in tokens]
        assert f'paths = ["{profile.base}/vault/**"]' in tokens

    def test_a_private_server_is_read_with_the_token_that_writes(self) -> None:
        base, tokens = new_base(), new_tokens(alone=False)
        assert 'operations = ["publish", "prune", "read"]' in token_file(tokens, base, alone=False, private=True)
        assert 'reads = "private"' in profile_file(tokens, base, alone=False, private=True)

    def test_every_role_is_told_of(self) -> None:
        page = (ROOT / "docs" / "conformance.md").read_text()
        for role, (meaning, operations, patterns) in ROLES.items():
            row = next(line for line in page.splitlines() if line.startswith(f"| `{role}` |"))
            assert meaning in row
            words = {*operations, *(pattern.removeprefix("{base}") for pattern in patterns)}
            assert words <= set(re.findall(r"`([^`]+)`", row))


def named(server: Server, directory: str, **metadata: str) -> list[str]:
    """What a directory shows; nothing where it is none."""
    answer = server.ask("LIST", directory, **metadata)
    return [] if answer.status == "not-found" else entries(answer, directory)


class TestRuns:
    @pytest.mark.once
    @rule("5", "not-permitted")
    def test_another_server_is_asked_with_a_token_alone(self, server: Server, tmp_path: Path) -> None:
        """What there is no token for is skipped with its reason, what was made is archived in the end."""
        ca = tmp_path / "ca.pem"
        assert server.profile.endpoint.ca is not None or not server.profile.ours
        ca.write_bytes(server.profile.endpoint.ca or b"")
        base = server.place()
        options = {
            "host": server.profile.endpoint.host,
            "port": str(server.profile.endpoint.port),
            "server-name": server.profile.endpoint.server_name or server.profile.endpoint.host,
            "base": base,
            "token-full": server.token("full"),
            "reads": server.profile.reads,
        }
        trust = [f"--mark-ca={ca}"] if server.profile.endpoint.ca else ["--mark-insecure"]
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["tests/conformance/test_statuses.py", *trust]
        command += [f"--mark-{name}={value}" for name, value in options.items()]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE * 2)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "skipped: not-permitted" in ended.stdout
        assert "the profile has no token for the role star" in ended.stdout
        assert "failed:" not in ended.stdout
        assert options["token-full"] not in ended.stdout
        eventually("a base without a live document", lambda: not named(server, base))
        assert named(server, base, include_archived="true") == ["open/"]

    @rule("4.5", "archive")
    def test_a_run_archives_what_it_made_and_nothing_else(self, server: Server, wire: Wire, place: str) -> None:
        server.publish(f"{place}/before.md")
        run = Server(server.profile, wire)
        run.publish(f"{place}/a.md")
        run.send(request("PUBLISH", f"/{place}//sub/b.md/", b"x", auth=server.token("full")))
        assert run.ask("PUBLISH", f"{place}/before.md", b"# Tea\n").status == "ok"
        assert run.made == [f"{place}/a.md", f"{place}//sub/b.md"]
        assert run.tidy() == []
        run.close()
        statuses = {name: server.ask("FETCH", f"{place}/{name}").status for name in ("a.md", "sub/b.md", "before.md")}
        assert statuses == {"a.md": "archived", "sub/b.md": "archived", "before.md": "ok"}

    def test_options_without_a_server_are_refused(self) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "tests/conformance/test_table.py", "--mark-port=1"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE * 2)
        assert ended.returncode != 0
        assert "name the server: --mark-host, or --mark-profile" in ended.stdout + ended.stderr
