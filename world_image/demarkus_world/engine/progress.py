"""How far the scrub has come, kept over restarts beside the view: a pass over a large store takes days.

It is signed with the world's key, because it lies where others may write; without a key nothing is kept. What is wrong
with it, or of another store, is no progress at all.
"""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from demarkus_world.engine import canonical
from demarkus_world.engine.model import Identity
from demarkus_world.engine.notes import WorldKey, origin, vouched

FILE = "scrub.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The entry up to which the newest pass that ended found everything right, and the pass that is under way.

    `through` is the entry that it goes up to (0: none is under way), `after` the last document that it has read.
    """

    verified_through: int = 0
    through: int = 0
    after: str = ""


class ProgressFile:
    """Where progress is kept: in the folder of the view (None: nowhere)."""

    def __init__(self, folder: Path | None, identity: Identity, key: WorldKey | None) -> None:
        self._file = folder / FILE if folder is not None and key is not None else None
        self._identity = identity
        self._key = key

    def load(self) -> Progress:
        """What was kept last. Blocks; raises nothing."""
        if self._file is None or self._key is None:
            return Progress()
        try:
            value = json.loads(self._file.read_bytes())
            signature = value.pop("signature")
            if not vouched(self._identity.history, canonical.encode(value), signature, self._key.public):
                raise ValueError("this world did not sign it")
            if value.pop("origin") != origin(self._identity):
                raise ValueError("it is of another store")
            return Progress(**value)
        except FileNotFoundError:
            return Progress()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning("the scrub begins anew, %s is of no use: %s", self._file, error)
            return Progress()

    def save(self, progress: Progress) -> None:
        """Keep it instead of what was kept. Blocks; raises nothing: what can't be kept is made again."""
        if self._file is None or self._key is None:
            return
        value = {"origin": origin(self._identity), **asdict(progress)}
        signature = self._key.vouch(self._identity.history, canonical.encode(value))
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_bytes(canonical.encode({**value, "signature": signature}))
            draft.replace(self._file)
        except OSError as error:
            logger.warning("the progress of the scrub can't be kept: %s", error)
