"""Log lines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from demarkus_base import logs


@pytest.fixture(autouse=True)
def untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_one_json_object_with_its_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", stream=stream)
    logging.getLogger("demarkus.test").info("request %s", "done", extra={"fields": {"status": "ok", "path": "/ü\n.md"}})
    logging.getLogger("demarkus.test").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "info",
        "logger": "demarkus.test",
        "message": "request done",
        "status": "ok",
        "path": "/ü\n.md",
    }


def test_a_trace_stays_on_the_line() -> None:
    stream = io.StringIO()
    logs.configure("info", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["trace"]


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    logs.configure("debug", format="text", stream=stream)
    logging.getLogger("x").debug("hello", extra={"fields": {"world": "kb"}})
    assert stream.getvalue().endswith("debug   x: hello world=kb\n")


def test_another_level_is_refused() -> None:
    with pytest.raises(ValueError, match="one of debug, info, warning, error"):
        logs.configure("loud")
