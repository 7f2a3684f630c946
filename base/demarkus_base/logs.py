"""JSON logs, one line an event, on standard error.

    logger.info("request", extra={"fields": {"verb": "FETCH", "status": "ok"}})

Fields stand beside `time`, `level`, `logger` and `message`. No credential belongs in any of them, and no person's name.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TextIO

Format = Literal["json", "text"]

# Made once: an encoder with options of its own costs as much as what it writes.
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


def configure(level: str = "info", *, format: Format = "json", stream: TextIO | None = None) -> None:
    """Send every logger's lines to `stream` (standard error), replacing what was set up before.

    `level` is debug, info, warning or error. Raises ValueError for another word.
    """
    if level not in ("debug", "info", "warning", "error"):
        raise ValueError(f"log level {level!r}: one of debug, info, warning, error")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    # No line says from where in the code, which thread or which process it comes: to find out costs more than the line.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class JsonFormatter(logging.Formatter):
    """One JSON object a line; a trace is the field `trace`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return _encode(line)


class TextFormatter(logging.Formatter):
    """For a terminal: time, level, message, then the fields as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        text = f"{_time(record)} {record.levelname.lower():7} {record.name}: {record.getMessage()}{fields}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info))
        return text


def _time(record: logging.LogRecord) -> str:
    second, milliseconds = divmod(int(record.created * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03}Z"


@lru_cache(maxsize=1)
def _second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
