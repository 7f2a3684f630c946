"""By what a write is judged, read and looked for ahead of the decision: the policy in force, findings in its body."""

import asyncio
import hashlib

from cachetools import LRUCache

from demarkus_world.content import Finding, inspect_body
from demarkus_world.engine.judgement import Standard
from demarkus_world.engine.model import Change, Write
from demarkus_world.engine.rules import Rules
from demarkus_world.engine.tentative import Tentative
from demarkus_world.engine.versions import Versions
from demarkus_world.policy import POLICY_PATH, PersonalData, Policy, PolicyError, parse_policy
from demarkus_world.view.local import LocalView
from mark_protocol import limits
from mark_protocol.versions import parse_version

INLINE = 8_192
"""Bytes that are looked through on the loop; longer bodies go to a thread."""

REMEMBERED = 1024


class Inspection:
    """Knows the policy of the tip, and what was found in the bodies of late."""

    def __init__(self, view: LocalView, versions: Versions, tentative: Tentative) -> None:
        self._view = view
        self._versions = versions
        self._tentative = tentative
        self._read: tuple[str, Policy | PolicyError] | None = None
        self._found: LRUCache[tuple[bytes, bool], tuple[Finding, ...]] = LRUCache(REMEMBERED)

    async def prepare(self, write: Change, rules: Rules) -> None:
        """Look through a long body before its turn comes, so that nobody waits for that."""
        if isinstance(write, Write) and write.op != "append" and len(write.body) > INLINE:
            await self.standard(write, rules)

    async def standard(self, write: Change, rules: Rules, *, body: bytes | None = None) -> Standard:
        """By what the write is judged; `body` is what an APPEND comes to. Raises StoreDamaged, Unavailable."""
        if not isinstance(write, Write):
            return Standard(owned=rules.policy is not None)
        policy = rules.policy or await self._policy()
        personal = isinstance(policy, Policy) and policy.personal_data is not PersonalData.OFF
        findings = await self._findings(write.body if body is None else body, personal=personal)
        return Standard(policy=policy, owned=rules.policy is not None, findings=findings)

    async def _policy(self) -> Policy | PolicyError | None:
        """What the policy document says, as the write before this one leaves it."""
        document = self._tentative.document(POLICY_PATH)
        if document is None or document.archived:
            return None
        if self._read is None or self._read[0] != document.stored:
            decided = self._tentative.content(POLICY_PATH, document.version)
            record = None if decided else self._view.version(POLICY_PATH, document.version)
            if decided is not None:
                version = parse_version(decided.data)
            elif record is not None:
                version = await self._versions.parsed(record)
            else:
                return None
            try:
                policy: Policy | PolicyError = parse_policy(version.body)
            except PolicyError as error:
                policy = error
            self._read = (document.stored, policy)
        return self._read[1]

    async def _findings(self, body: bytes, *, personal: bool) -> tuple[Finding, ...]:
        if not body or len(body) > limits.BODY:
            return ()
        key = (hashlib.sha256(body).digest(), personal)
        found = self._found.get(key)
        if found is None:
            if len(body) > INLINE:
                found = await asyncio.to_thread(inspect_body, body, personal=personal)
            else:
                found = inspect_body(body, personal=personal)
            self._found[key] = found
        return found
