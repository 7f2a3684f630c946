"""`demarkus-world verify` as a process: on a volume, beside the world that writes, in words and in JSON."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_world.commands.verify import command
from demarkus_world.engine.engine import Engine

COMMAND = str(Path(sys.executable).parent / "demarkus-world")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose store is `<tmp>/data`; the files of its TLS pair are not there."""
    (tmp_path / "data").mkdir()
    pem = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "world.key").write_bytes(pem)
    file = tmp_path / "world.yaml"
    file.write_text(
        f"""
name: kettle
identity: {{history: {"a" * 32}, incarnation: {"b" * 32}, keyFile: {tmp_path}/world.key}}
store: {{directory: {tmp_path}/data}}
tls: {{certificate: {tmp_path}/none.crt, key: {tmp_path}/none.key}}
"""
    )
    return file


@pytest.fixture
async def world(config: Path, start: Callable[..., Awaitable[Engine]], a_write: Any) -> Any:
    """An engine that holds the store, with three versions of /a.md in it."""
    blobs = await DirectoryBlobs.open(config.parent / "data" / "world")
    engine = await start(blobs)
    for body in (b"one\n", b"two\n", b"three\n"):
        await engine.write(a_write(body=body))
    yield engine
    await engine.close()
    await blobs.close()


async def run(config: Path, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command, ["--config", str(config), *arguments])


def expect_entries(config: Path, least: int) -> None:
    config.write_text(config.read_text() + f"expect: {{history: {'a' * 32}, minSize: {least}}}\n")


def newest(config: Path) -> Path:
    [file] = (config.parent / "data/world/docs/a.md").glob("v3-*.md")
    return file


async def test_an_intact_store_is_told_beside_the_world_that_writes(config: Path, world: Engine) -> None:
    done = await run(config)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "intact"
    assert "3 entries, 1 documents, 3 versions" in done.stdout


async def test_an_altered_version_is_told_in_words(config: Path, world: Engine) -> None:
    newest(config).write_bytes(newest(config).read_bytes().replace(b"three", b"THREE"))
    done = await run(config)
    assert done.exit_code == 1
    assert "version-altered: the newest version of /a.md (version 3) was altered after it was written" in done.stdout
    assert f"  object: docs/a.md/{newest(config).name}\n  entry: 3\n  field: body\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "NOT INTACT: 1 findings"


async def test_it_is_a_command_of_the_world(config: Path, world: Engine) -> None:
    process = await asyncio.create_subprocess_exec(
        COMMAND, "verify", env={"DEMARKUS_CONFIG": str(config)}, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert (process.returncode, told.splitlines()[-1]) == (0, b"intact")


async def test_the_report_is_json_on_demand(config: Path, world: Engine) -> None:
    newest(config).unlink()
    done = await run(config, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (report["intact"], report["entries"], report["documents"], report["versions"]) == (False, 3, 1, 3)
    [finding] = report["findings"]
    assert (finding["fault"], finding["entry"], finding["path"]) == ("version-missing", 3, "/a.md")


async def test_a_witnessed_note_shows_what_was_rolled_back(config: Path, world: Engine, tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text(await world.note())
    assert (await run(config, "--note", str(note))).exit_code == 0
    (tmp_path / "data/world/log/0000000000000003.json").unlink()
    done = await run(config, "--note", str(note))
    assert done.exit_code == 1
    assert "rolled-back: the log ends with entry 2, the note knows of 3" in done.stdout
    assert (await run(config)).exit_code == 0, "without the note nobody can tell"


async def test_the_public_key_is_enough(config: Path, world: Engine, tmp_path: Path) -> None:
    note, key = tmp_path / "note", tmp_path / "world.pub"
    note.write_text(await world.note())
    key.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "world.key").unlink()
    done = await run(config, "--note", str(note), "--key", str(key))
    assert done.exit_code == 0, done.stderr
    done = await run(config, "--note", str(note))
    assert done.exit_code == 2
    assert "world.key: No such file" in done.stderr


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda config: (config.parent / "data").rmdir(), "there is no store"),
        (lambda config: config.write_text("name: kettle"), "required field is missing"),
        (lambda config: config.unlink(), "world.yaml: No such file"),
    ],
)
async def test_what_cant_be_checked_is_not_called_intact(config: Path, break_it: Any, told: str) -> None:
    break_it(config)
    done = await run(config)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_folder_is_enough(config: Path, world: Engine, tmp_path: Path) -> None:
    done = await asyncio.to_thread(CliRunner().invoke, command, ["--store", str(tmp_path / "data")])
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "intact")
    done = await asyncio.to_thread(CliRunner().invoke, command, [])
    assert (done.exit_code, "give --config or --store" in done.stderr) == (2, True)


async def test_a_log_shorter_than_it_is_known_to_be_is_told(config: Path, world: Engine) -> None:
    expect_entries(config, 4)
    done = await run(config)
    assert done.exit_code == 1
    assert "log-shorter: the log ends with entry 3, though it is known to have had 4" in done.stdout


async def test_nothing_is_written(config: Path, world: Engine) -> None:
    folder = config.parent / "data"
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    await run(config)
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
