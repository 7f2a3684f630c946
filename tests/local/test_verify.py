"""`demarkus verify`: the record of what was witnessed, checked once more."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demarkus_operator.cli.main import demarkus
from demarkus_operator.local.state import StateFolder
from demarkus_operator.local.store import file_of
from demarkus_operator.plan.names import witness_record
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.witness import Record, data_of, judged, record_of
from demarkus_operator.reconcile.world import world_ref
from tests.operator.history_log import HISTORY, KEY, NOON, OTHER_KEY, Log

Verify = Callable[..., Result]


def witnessed(*logs: Log) -> Record:
    """The record after these testimonies, an hour between them."""
    record = record_of(None, history=HISTORY, key=KEY.public_key())
    for number, log in enumerate(logs):
        record, _ = judged(record, log.testifies(record, time=NOON + timedelta(hours=number)))
    return record


def note_of(log: Log) -> str:
    text = log.testifies(record_of(None, history=HISTORY, key=KEY.public_key())).note
    assert text is not None
    return text


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder.at(tmp_path / "state")


@pytest.fixture
def keep(state: StateFolder) -> Callable[[Ref, dict[str, Any]], None]:
    """Puts an object into the state folder."""

    def keep(ref: Ref, content: dict[str, Any]) -> None:
        file = file_of(state.objects, ref)
        file.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"name": ref.name, "namespace": ref.namespace, "resourceVersion": "1"}
        manifest = {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, **content}
        file.write_text(json.dumps(manifest))

    return keep


@pytest.fixture
def verify(state: StateFolder, keep: Callable[[Ref, dict[str, Any]], None], tmp_path: Path) -> Verify:
    """Runs the command over a World with this record; `notes` are texts that were kept elsewhere."""

    def verify(record: Record | None, *options: str, notes: tuple[str, ...] = (), told: str = "True") -> Result:
        conditions = [{"type": "HistoryVerified", "status": told, "reason": "HistoryForked", "message": "said so"}]
        keep(world_ref("default", "notes"), {"status": {"history": HISTORY, "conditions": conditions}})
        if record is not None:
            keep(witness_record("demarkus-system", HISTORY), {"data": data_of(record)})
        for number, text in enumerate(notes):
            (tmp_path / f"{number}.note").write_text(text)
            options = (*options, "--note", str(tmp_path / f"{number}.note"))
        return CliRunner().invoke(demarkus, ["verify", "notes", "--state", str(state.root), *options])

    return verify


def test_a_history_that_goes_on_is_fine(verify: Verify) -> None:
    earlier, later = Log().grow("a"), Log().grow("a", "b", "c")
    result = verify(witnessed(earlier, later), notes=(note_of(earlier),))
    assert result.exit_code == 0, result.output
    assert "3 entries witnessed at 2026-12-01T13:00:00+00:00" in result.stdout
    assert result.stdout.endswith("Nothing speaks against it.\n")


def test_json_holds_the_newest_note_to_be_kept_elsewhere(verify: Verify) -> None:
    log = Log().grow("a", "b")
    facts = json.loads(verify(witnessed(log), "--json").stdout)
    assert (facts["verified"], facts["newest"]["entries"]) == (True, 2)
    assert verify(witnessed(log), notes=(facts["newest"]["note"],)).exit_code == 0


def test_a_doubt_is_told_and_is_a_failure(verify: Verify) -> None:
    result = verify(witnessed(Log().grow("a", "b"), Log().grow("a")))
    assert result.exit_code == 1
    assert "the history ends at entry 1, and 2 were witnessed" in result.stdout


def test_what_the_operator_says_counts(verify: Verify) -> None:
    result = verify(witnessed(Log().grow("a")), told="False")
    assert result.exit_code == 1
    assert "HistoryForked: said so" in result.stdout


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [
        (Log().grow("a", "b", "c"), "a given note knows 3 entries, the record only 2"),
        (Log().grow("a", "x"), "disagree about the first 2 entries: the history was forked"),
        (Log(life="3d" * 16).grow("a"), "a given note is of another life"),
    ],
    ids=["longer", "forked", "another life"],
)
def test_a_note_kept_elsewhere_speaks_against_a_record_that_was_rewritten(
    verify: Verify, kept: Log, complaint: str
) -> None:
    result = verify(witnessed(Log().grow("a", "b")), notes=(note_of(kept),))
    assert result.exit_code == 1
    assert complaint in result.stdout


def test_a_note_of_somebody_else_is_a_mistake(verify: Verify) -> None:
    result = verify(witnessed(Log().grow("a")), notes=(note_of(Log(key=OTHER_KEY).grow("a")),))
    assert result.exit_code == 2
    assert "was not signed by a key of this history" in result.stderr


def test_nothing_witnessed_yet_is_no_proof(verify: Verify) -> None:
    result = verify(None)
    assert result.exit_code == 1
    assert "nothing was witnessed yet of World default/notes" in result.stderr


def test_a_world_that_is_not_there_is_a_mistake(state: StateFolder) -> None:
    result = CliRunner().invoke(demarkus, ["verify", "nobody", "--state", str(state.root)])
    assert result.exit_code == 2
    assert "there is no World default/nobody" in result.stderr
