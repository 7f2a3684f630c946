"""Prune and sweep as commands: the same for a caller at the control socket and for a process that has the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from demarkus_world.control import BadCommand
from demarkus_world.engine.engine import Engine, Prune
from demarkus_world.engine.sweep import Sweeper, Swept
from mark_protocol.paths import clean, has_parent_segment


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PruneCommand(_Command):
    """See `Prune`; `older_than` is in ms."""

    command: str = Field(default="prune", pattern="^prune$")
    path: str = Field(min_length=1, max_length=4096)
    before: int | None = Field(default=None, ge=1)
    older_than: int | None = Field(default=None, ge=0)
    keep: int | None = Field(default=None, ge=1)
    erase: bool = False

    @model_validator(mode="after")
    def _bounded(self) -> PruneCommand:
        if self.before is None and self.older_than is None and self.keep is None:
            raise ValueError("say which versions go: --before, --keep, or both")
        if not self.path.startswith("/") or has_parent_segment(self.path):
            raise ValueError(f"{self.path} is no path of a document, such as /notes/tea.md")
        return self


class SweepCommand(_Command):
    """See `Sweeper.sweep`."""

    command: str = Field(default="sweep", pattern="^sweep$")


class Housekeeping:
    """What an open store needs to be pruned and swept."""

    def __init__(self, engine: Engine, sweeper: Sweeper) -> None:
        self._engine = engine
        self._sweeper = sweeper

    async def carry_out(self, command: Mapping[str, Any], by: str) -> Mapping[str, Any]:
        """Do what a command says, for `by`. Raises BadCommand, EngineError."""
        kinds: Mapping[str, type[PruneCommand | SweepCommand]] = {"prune": PruneCommand, "sweep": SweepCommand}
        kind = kinds.get(str(command.get("command")))
        if kind is None:
            raise BadCommand(f"the command {command.get('command')!r} is not known to this version")
        try:
            asked = kind.model_validate(command)
        except ValidationError as error:
            raise BadCommand("; ".join(_problem(entry) for entry in error.errors())) from None
        return await (self._prune(asked, by) if isinstance(asked, PruneCommand) else self._sweep(by))

    async def _prune(self, command: PruneCommand, by: str) -> Mapping[str, Any]:
        path = clean(command.path)
        written = await self._engine.write(
            Prune(
                path=path,
                before=command.before,
                older_than=command.older_than,
                keep=command.keep,
                erase=command.erase,
                by=by,
            )
        )
        done: dict[str, Any] = {"path": path, "newest": written.version}
        if written.pruned is not None:
            done |= {"first": written.pruned[0], "last": written.pruned[1]}
        if command.erase:
            # Also when there was nothing to prune: an earlier attempt may have come only half the way.
            done |= _told(await self._sweeper.erase(path, by=by))
        return done

    async def _sweep(self, by: str) -> Mapping[str, Any]:
        return _told(await self._sweeper.sweep(by=by, credential="local"))


def _told(swept: Swept) -> dict[str, Any]:
    return {"found": swept.found, "deleted": swept.deleted} | ({} if swept.due is None else {"due": swept.due})


def _problem(entry: Any) -> str:
    field = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "value_error":
        return str(entry["ctx"]["error"])
    return f"{field}: {entry['msg']}"
