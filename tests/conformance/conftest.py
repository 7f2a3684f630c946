"""Options, fixtures and the closing table of the conformance suite (docs/conformance.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.own import KINDS, OwnServers
from tests.conformance.profile import ROLES, Profile, ProfileError, from_toml
from tests.conformance.server import Server
from tests.conformance.wire import Wire

RULES = Path(__file__).with_name("rules.yaml")
OTHER = "other"
OPTIONS = ("host", "port", "ca", "insecure", "server_name", "base", "reads", "history", "profile")


PROFILE = pytest.StashKey[Profile | None]()
SERVERS = pytest.StashKey[list[Server]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What says which server is asked; nothing of it: our own ones."""
    group = parser.getgroup("mark", "conformance of a Mark server")
    group.addoption("--mark-profile", default="", help="TOML file that describes the server (docs/conformance.md)")
    group.addoption("--mark-host", default="", help="name or address of the server")
    group.addoption("--mark-port", default=0, type=int, help="its UDP port (default: 6309)")
    group.addoption("--mark-server-name", default="", help="name that its certificate has to be for")
    group.addoption("--mark-ca", default="", help="PEM file with the certificates to trust")
    group.addoption("--mark-insecure", action="store_true", help="take any certificate")
    group.addoption("--mark-base", default="", help="path below which documents are made (default: a new one)")
    group.addoption("--mark-reads", default="", choices=("", "public", "private"))
    group.addoption("--mark-history", default="", choices=("", "compatible", "protected"))
    for role, (meaning, _, _) in ROLES.items():
        group.addoption(f"--mark-token-{role}", default="", help=f"token that {meaning}")


def pytest_configure(config: pytest.Config) -> None:
    """Names the markers, and refuses options that describe no server."""
    config.addinivalue_line("markers", "rule(section, name): the rule of rules.yaml that this test checks")
    config.addinivalue_line("markers", "once: where our own servers are asked, one of them is enough")
    config.stash[PROFILE] = described(config)


def described(config: pytest.Config) -> Profile | None:
    """The profile that the options describe, or None."""

    def option(name: str) -> Any:
        return config.getoption(f"mark_{name}", default="")

    tokens = {role: raw for role in ROLES if (raw := option(f"token_{role}"))}
    if not (option("profile") or option("host")):
        if tokens or any(option(name) for name in OPTIONS):
            raise pytest.UsageError("name the server: --mark-host, or --mark-profile")
        return None
    path = Path(option("profile")) if option("profile") else None
    try:
        if path is None:
            text = _as_toml({key: value for key in OPTIONS if (value := option(key)) and key != "profile"})
            profile = from_toml(text, source="options", folder=Path.cwd())
        else:
            text = path.read_text(encoding="utf-8")
            profile = from_toml(text, source=str(path), folder=path.parent, host=option("host"), port=option("port"))
    except (OSError, ProfileError) as error:
        raise pytest.UsageError(str(error)) from None
    return dataclasses.replace(profile, tokens={**profile.tokens, **tokens})


def _as_toml(given: dict[str, Any]) -> str:
    from tests.conformance.prepare import new_base

    given.setdefault("base", new_base())
    lines = (
        f"{key.replace('_', '-')} = {value if isinstance(value, (bool, int)) else repr(value)}"
        for key, value in given.items()
    )
    return "\n".join(lines).replace("True", "true")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run for the server that was named, or one for each way in which ours are run."""
    if "server" in metafunc.fixturenames:
        kinds = KINDS if metafunc.config.stash[PROFILE] is None else (OTHER,)
        if metafunc.definition.get_closest_marker("once"):
            kinds = kinds[:1]
        metafunc.parametrize("server", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def wire() -> Iterator[Wire]:
    """The loop that all connections live on."""
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, wire: Wire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server under test."""
    own: OwnServers | None = None
    profile = request.config.stash[PROFILE]
    if profile is None:
        own = OwnServers(kind=request.param, folder=tmp_path_factory.mktemp(request.param))
    try:
        server = Server(profile or own.start(), wire)  # type: ignore[union-attr]
        request.config.stash.setdefault(SERVERS, []).append(server)
        server.begin_long_waits()
        yield server
        if own is None:
            left = server.tidy()
            assert not left, f"these documents could not be archived: {left}"
        server.close()
    finally:
        if own is not None:
            own.stop()


@pytest.fixture
def place(server: Server) -> str:
    """A folder of this test's own."""
    return server.place()


# The closing table


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Notes what became of each rule."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when != "call" and report.passed:
        return
    for mark in item.iter_markers("rule"):
        report.user_properties.append(("rule", (item.callspec.params.get("server", ""), *mark.args, report.outcome)))  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How many rules of each section hold, fail, and could not be asked; which readings the server has."""
    outcomes: dict[tuple[str, str, str], set[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key == "rule":
                    kind, section, name, outcome = value
                    outcomes.setdefault((kind, section, name), set()).add(outcome)
    if not outcomes:
        return
    for line in table(outcomes):
        terminalreporter.write_line(line)
    for server in config.stash.get(SERVERS, []):
        for of, reading in sorted(server.readings.items()):
            terminalreporter.write_line(f"{server.profile.name}: {of}: {reading}")


def table(outcomes: dict[tuple[str, str, str], set[str]]) -> list[str]:
    """The lines of the closing table."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    lines = []
    for kind in sorted({kind for kind, _, _ in outcomes}):
        lines += ["", f"{kind:<14} {'rules':>6} {'passed':>7} {'failed':>7} {'skipped':>8} {'unseen':>7}"]
        for section, names in rules.items():
            found = {name: _worst(outcomes.get((kind, section, name), set())) for name in names}
            unseen = sum(isinstance(names[name], dict) for name in names)
            if not any(found.values()) and unseen < len(names):
                continue  # not asked in this run
            counts = [list(found.values()).count(outcome) for outcome in ("passed", "failed", "skipped")]
            lines.append(f"  {section:<12} {len(names):>6} " + "{:>7} {:>7} {:>8}".format(*counts) + f" {unseen:>7}")
            for outcome in ("failed", "skipped"):
                named = [name for name in names if found[name] == outcome]
                lines += [f"      {outcome}: {name}" for name in named]
    return lines


def _worst(outcomes: set[str]) -> str:
    """A rule holds where everything that was asked about it holds and something was."""
    for outcome in ("failed", "passed", "skipped"):
        if outcome in outcomes:
            return outcome
    return ""
