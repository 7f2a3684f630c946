"""Configuration files that are watched by content.

What counts is the bytes behind the names, not their times or inodes: a mounted Secret or ConfigMap changes by swapping
a symbolic link, an editor by renaming, a script by writing in place. A broken new content keeps the last good value
and says so; at the start there is no last good value, so a missing or broken file is an error.

Files are small (1 MiB at most) and looked at once a second.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

FILE_LIMIT = 1024 * 1024
FILES_LIMIT = 1000

logger = logging.getLogger(__name__)


class SettingsError(Exception):
    """A file can't be used; the message names it, the field, and what was expected."""


def content_digest(contents: Sequence[bytes]) -> str:
    """The name of a content, 64 hex: SHA-256 of one file; of several, SHA-256 of their digests (hex, one a line)."""
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(f"{d}\n" for d in digests).encode()).hexdigest()


class Watched(Generic[T]):
    """The value loaded from some files, kept up to date by `watch`.

    `paths` are files, or directories that stand for the visible files directly in them. `load` gets the contents by
    path, in that order (a directory's files by name), and returns the value; it raises SettingsError or ValueError
    for what it can't use. `on_change` is called on the loop with each new value.
    """

    def __init__(
        self,
        paths: Sequence[Path | str],
        load: Callable[[dict[str, bytes]], T],
        *,
        what: str = "configuration",
        on_change: Callable[[T], None] | None = None,
        interval: float = 1.0,
    ) -> None:
        """Load the value for the first time. Raises SettingsError."""
        self._paths = tuple(Path(path) for path in paths)
        self._load = load
        self._what = what
        self._on_change = on_change
        self._interval = interval
        self._rejected: Mapping[str, bytes] | str | None = None
        self._contents = _read(self._paths)
        self._value = self._loaded(self._contents)
        self._error: str | None = None

    @property
    def value(self) -> T:
        """The newest good value."""
        return self._value

    @property
    def digest(self) -> str:
        """`content_digest` of what `value` was loaded from."""
        return content_digest(list(self._contents.values()))

    @property
    def error(self) -> str | None:
        """Why the files as they are now can't be used, or None when `value` is what they say."""
        return self._error

    async def watch(self) -> None:
        """Look at the files for ever. The owner runs this as a task and cancels it."""
        while True:
            await asyncio.sleep(self._interval)
            await self.check()

    async def check(self) -> bool:
        """Look at the files once; True if there is a new value."""
        try:
            contents = await asyncio.to_thread(_read_settled, self._paths)
        except SettingsError as error:
            self._reject(str(error), str(error))
            return False
        if contents is None or contents == self._rejected:
            return False
        if contents == self._contents:
            if self._error is not None:
                logger.info("%s is back to the loaded content", self._names())
            self._error = self._rejected = None
            return False
        try:
            value = self._loaded(contents)
        except SettingsError as error:
            self._reject(contents, str(error))
            return False
        except Exception:
            logger.exception("bug while loading %s", self._names())
            self._reject(contents, "could not be loaded because of a bug; see the log")
            return False
        self._contents, self._value = contents, value
        self._error = self._rejected = None
        logger.info("%s reloaded", self._what, extra={"fields": {"files": self._names(), "digest": self.digest}})
        if self._on_change is not None:
            self._on_change(value)
        return True

    def _loaded(self, contents: dict[str, bytes]) -> T:
        try:
            return self._load(dict(contents))
        except ValueError as error:
            raise SettingsError(f"{self._names()}: {error}") from error

    def _reject(self, content: Mapping[str, bytes] | str, error: str) -> None:
        if content == self._rejected:
            return
        self._rejected, self._error = content, error
        logger.error("%s not reloaded, the last good one stays: %s", self._what, error)

    def _names(self) -> str:
        return ", ".join(map(str, self._paths))


def _read_settled(paths: Sequence[Path]) -> dict[str, bytes] | None:
    """The contents if two reads in a row agree, else None: somebody is writing, the next look will tell."""
    contents = _read(paths)
    return contents if _read(paths) == contents else None


def _read(paths: Sequence[Path]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for path in paths:
        try:
            if path.is_dir():
                files = sorted(file for file in path.iterdir() if not file.name.startswith(".") and file.is_file())
            else:
                files = [path]
            for file in files:
                with file.open("rb") as source:
                    contents[str(file)] = source.read(FILE_LIMIT + 1)
                if len(contents[str(file)]) > FILE_LIMIT:
                    raise SettingsError(f"{file}: larger than {FILE_LIMIT} bytes")
        except OSError as error:
            raise SettingsError(f"{error.filename or path}: {error.strerror}") from error
        if len(contents) > FILES_LIMIT:
            raise SettingsError(f"{path}: more than {FILES_LIMIT} files")
    return contents
