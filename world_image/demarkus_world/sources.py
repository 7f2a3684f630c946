"""The files a world is made of, watched: configuration, tokens, key set, certificate.

A missing or broken file is an error at the start and an error in the log later, while the last good content stays in
force. What is in force is known by its digest, which is how a rotation learns that it has arrived.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from demarkus_base.settings import SettingsError, Watched
from demarkus_world.authority import Rules, opened_by
from demarkus_world.engine.notes import KeyFault, WorldKey
from demarkus_world.settings import TLS, Settings, changes_needing_restart, parse_settings
from demarkus_world.uses import Uses
from mark_protocol.grants import KeySet, KeySetError
from mark_protocol.tokens import TokenFileError, TokenSet, merge, parse_tokens
from mark_protocol.transport import certificates
from mark_protocol.transport.port import Certificate, TransportError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Sources:
    """What the files say now. `world_key` is read once: it changes with an entry in the log, not with a file.

    `on_settings` and `on_certificate` are called, on the loop, with each new value; `interval` is in seconds.
    """

    def __init__(
        self, config: Path | Settings, *, interval: float = 1.0, clock: Callable[[], float] = time.time
    ) -> None:
        """Reads everything once; settings that come from no file stay as they are. Raises SettingsError.

        `clock` gives seconds since 1970.
        """
        self._interval = interval
        self._watched: dict[str, Watched[Any]] = {}
        self._in_force: Settings | None = None
        self.on_settings: Callable[[Settings], None] = _ignore
        self.on_certificate: Callable[[Certificate], None] = _ignore

        if isinstance(config, Path):
            config = self._follow("config", [config], self._load_settings, self._settings_changed).value
        self._in_force = settings = config
        self._tokens = (
            self._follow("tokens", settings.tokens, _load_tokens, self._tokens_changed) if settings.tokens else None
        )
        self._uses = Uses(clock)
        self._watched_tokens = self._watch_tokens()
        self._keys = (
            self._follow("keySet", [settings.key_set], _load_key_set, self._rules_changed) if settings.key_set else None
        )
        self._management_keys = (
            self._follow("managementKeys", [settings.management_keys], _load_key_set, _ignore)
            if settings.management_keys
            else None
        )
        self.world_key = _load_world_key(settings.identity.key_file) if settings.identity.key_file else None
        tls = settings.tls
        self._certificate = self._follow(
            "tls", [tls.certificate, tls.key], partial(_load_certificate, tls), self._certificate_changed
        )
        self._audience = f"{settings.identity.history}/{settings.identity.incarnation}"
        self._rules = self._make_rules()

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        assert self._in_force is not None, "it is read first of all"
        return self._in_force

    @property
    def rules(self) -> Rules:
        """The rule set in force; another object after every change."""
        return self._rules

    @property
    def certificate(self) -> Certificate:
        """The certificate in force."""
        return self._certificate.value

    @property
    def management_keys(self) -> KeySet:
        """The keys of the operator in force; without any nobody manages this world."""
        return KeySet() if self._management_keys is None else self._management_keys.value

    @property
    def digests(self) -> dict[str, str]:
        """The content hashes of the files in force: tls; config, tokens, keySet, managementKeys if there are any."""
        return {what: watched.digest for what, watched in self._watched.items()}

    @property
    def token_uses(self) -> Mapping[str, int]:
        """When each token was last used: label -> milliseconds since 1970."""
        return self._uses.facts

    @property
    def errors(self) -> dict[str, str]:
        """What can't be used as it is on disk, and why."""
        return {what: watched.error for what, watched in self._watched.items() if watched.error}

    def bind(self, audience: str) -> None:
        """Names the world that grants must be for, once its store has been opened: `<history>/<incarnation>`."""
        self._audience = audience
        self._rules = self._make_rules()

    async def watch(self) -> None:
        """Follows the files for ever. The owner runs this as a task and cancels it."""
        async with asyncio.TaskGroup() as group:
            for watched in self._watched.values():
                group.create_task(watched.watch())

    def _follow(
        self,
        what: str,
        paths: Sequence[Path],
        load: Callable[[dict[str, bytes]], T],
        on_change: Callable[[T], None],
    ) -> Watched[T]:
        try:
            watched = Watched(paths, load, what=what, on_change=on_change, interval=self._interval)
        except SettingsError as error:
            raise error if what == "config" else SettingsError(f"{what}: {error}") from None
        self._watched[what] = watched
        return watched

    def _load_settings(self, contents: Mapping[str, bytes]) -> Settings:
        [(file, data)] = contents.items()
        settings = parse_settings(data, source=file)
        changed = changes_needing_restart(self._in_force, settings) if self._in_force is not None else ()
        if changed:
            raise SettingsError(f"{file}: {', '.join(changed)}: can't change while the world runs; restart it")
        return settings

    def _settings_changed(self, settings: Settings) -> None:
        self._in_force = settings
        self._rules_changed(settings)
        self.on_settings(settings)

    def _certificate_changed(self, certificate: Certificate) -> None:
        self.on_certificate(certificate)

    def _tokens_changed(self, _: TokenSet) -> None:
        self._watched_tokens = self._watch_tokens()
        self._rules_changed(_)

    def _watch_tokens(self) -> TokenSet | None:
        return None if self._tokens is None else self._uses.watching(self._tokens.value)

    def _rules_changed(self, _: object) -> None:
        before, self._rules = self._rules, self._make_rules()
        opened = opened_by(before, self._rules)
        if opened is not None:
            logger.warning("WARNING, this reload opens something: %s", opened)

    def _make_rules(self) -> Rules:
        settings = self.settings
        return Rules(
            reads=settings.reads,
            audience=self._audience,
            tokens=self._watched_tokens,
            keys=None if self._keys is None else self._keys.value,
            not_before=settings.grants_not_before_seconds,
            read_only=settings.read_only,
        )


def _ignore(_: object) -> None: ...


def _load_tokens(contents: Mapping[str, bytes]) -> TokenSet:
    try:
        tokens = merge(parse_tokens(data.decode(), source=file) for file, data in contents.items())
    except TokenFileError as error:
        raise SettingsError(str(error)) from None
    for warning in tokens.warnings:
        logger.warning("tokens: %s", warning)
    return tokens


def _load_key_set(contents: Mapping[str, bytes]) -> KeySet:
    [(file, data)] = contents.items()
    try:
        return KeySet.from_jwks(data)
    except KeySetError as error:
        raise SettingsError(f"{file}: {error}") from None


def _load_world_key(file: Path) -> WorldKey:
    try:
        return WorldKey.from_pem(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"identity.keyFile: {file}: {error.strerror}") from None
    except KeyFault as error:
        raise SettingsError(f"identity.keyFile: {file}: {error}") from None


def _load_certificate(files: TLS, contents: Mapping[str, bytes]) -> Certificate:
    certificate = Certificate(
        name=str(files.certificate),
        chain_pem=contents[str(files.certificate)],
        key_pem=contents[str(files.key)],
    )
    try:
        certificates.parse(certificate)
    except TransportError as error:
        raise SettingsError(str(error)) from None
    return certificate
