"""The bytes on the disk: a small store, made with a fixed clock and fixed randomness, compared with its golden copy.

When the copy changes, stores that exist can no longer be read: the difference is the review.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine import canonical
from demarkus_world.engine.engine import Write
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.restore.restore import Witness, restore
from demarkus_world.engine.restore.survey import Until
from tests.engine.conftest import Repeated

AWrite = Callable[..., Write]

GOLDEN = Path(__file__).parent / "golden" / "store.json"
RESTORED = Path(__file__).parent / "golden" / "restored.json"
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))


async def test_a_small_store_has_these_exact_bytes(start: Any, a_write: AWrite, clock: Any, tmp_path: Path) -> None:
    blobs = await DirectoryBlobs.open(tmp_path / "world")
    engine = await start(blobs, seed="golden")
    for write in (
        a_write(path="/notes/tea.md", body=b"# Tea\n", expected=0, metadata={"tags": "a, b", "title": "Tea"}),
        a_write("append", path="/notes/tea.md", body=b"Green.\n", expected=1, metadata={"agent": "kettle/1"}),
        a_write("archive", path="/notes/tea.md"),
        a_write("unarchive", path="/notes/tea.md", by="s-0123456789abcdef0123456789abcdef", credential="grant"),
        a_write(path="/notes/tea.md", body=b"# Tea\n", metadata={"retention": "1"}, expected=2),
        a_write(path="/100%\t\u00e9\U0001f600.md", body=b"", by="local:ada", credential="local"),
    ):
        clock.now += 1234
        await engine.write(write)
    await engine.close()
    await blobs.close()
    found = {
        str(file.relative_to(tmp_path / "world")): file.read_text()
        for file in sorted((tmp_path / "world").rglob("*"))
        if file.is_file() and file.name != "lock"
    }
    assert found == json.loads(GOLDEN.read_text())


async def test_a_restored_store_has_these_exact_bytes_more(start: Any, a_write: AWrite, clock: Any, pause: Any) -> None:
    """One that was cut back before an earlier restore, with a witness: every field that a restore entry can have."""
    first, second, third = MemoryBlobs(), MemoryBlobs(), MemoryBlobs()
    engine = await start(first, seed="golden", key=KEY)
    for path in ("/a.md", "/b.md"):
        clock.now += 1234
        await engine.write(a_write(path=path))
    common = {"now": clock, "random": Repeated("golden"), "by": "local:ada", "pause": pause}
    await restore(first, second, **common)
    note = await (await start(second, seed="golden", key=KEY)).note()
    clock.now += 1234
    witness = Witness(text=note, key=KEY.public)
    await restore(second, third, until=Until(sequence=1), witness=witness, **common)
    log = {key: (await third.get(key)).decode() async for key in third.list("log/")}
    found = {key: (await third.get(key)).decode() for key in ("world.json", "restore.json")}
    assert {**found, **log} == json.loads(RESTORED.read_text())


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b'{"a":1}\n',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        '{"a":"é"}'.encode(),
        b'{"a":"\\u00E9"}',
        b'{"a":"\\/"}',
        b"[1]",
        b"",
        b"\xff",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_canonical_is_refused(data: bytes) -> None:
    with pytest.raises(canonical.NotCanonical):
        canonical.decode(data)


def test_canonical_json_reads_back() -> None:
    value = {"b": [1, {"z": True, "a": "é\U0001f600\t\x7f"}], "a": 2**63}
    data = canonical.encode(value)
    assert data == b'{"a":9223372036854775808,"b":[1,{"a":"\\u00e9\\ud83d\\ude00\\t\\u007f","z":true}]}'
    assert canonical.decode(data) == value
