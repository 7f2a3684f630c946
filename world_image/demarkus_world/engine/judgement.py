"""Whether a new version may be kept, by what it says: secrets, personal data, the write policy (Mark protocol 6.6).

Judged after conflict, place, archive state, unchanged and size, and before quota and space, always in this order:

    1. who writes       the policy document of a world whose configuration owns it is written by nobody else
    2. secrets          always refused
    3. personal data    refused where the policy blocks it
    4. the document     a policy document has to be a policy
    5. the policy       what it asks of metadata

Pure; the findings in the body come in, because looking for them takes time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demarkus_world import content
from demarkus_world.content import Finding
from demarkus_world.engine.model import Change, Settle, Write
from demarkus_world.engine.refusals import (
    ContentRefused,
    PolicyInvalid,
    PolicyOwned,
    PolicyRefused,
    PolicyRequired,
    ProposalsFull,
)
from demarkus_world.policy import (
    POLICY_PATH,
    PersonalData,
    Policy,
    PolicyError,
    Strictness,
    parse_policy,
    refusal_text,
)

OPEN_PROPOSALS = 100
PROPOSAL_LIFE = 30 * 24 * 3600 * 1000
"""How long a proposal waits for a decision, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """What writes are judged by: the policy in force (or why it is none), who owns it, and the body's findings."""

    policy: Policy | PolicyError | None = None
    owned: bool = False
    findings: Sequence[Finding] = ()


def check_authority(write: Change, standard: Standard) -> None:
    """Raises PolicyOwned for a change of a policy document that follows the configuration."""
    if write.path == POLICY_PATH and standard.owned and write.credential != "local":
        raise PolicyOwned("the policy document follows the World's configuration; change policy there")


def check_archive(path: str, standard: Standard) -> None:
    """Raises PolicyRequired for the archive of a policy that refuses writes."""
    policy = standard.policy
    if path == POLICY_PATH and isinstance(policy, Policy) and policy.strictness is not Strictness.WARN:
        raise PolicyRequired(
            f"the policy is in force with strictness {policy.strictness}; publish it with strictness warn first"
        )


def check_room(open_proposals: int) -> None:
    """Raises ProposalsFull if no further proposal may be opened."""
    if open_proposals >= OPEN_PROPOSALS:
        raise ProposalsFull(f"{OPEN_PROPOSALS} proposals are open; some have to be decided first")


def judge(write: Write, *, metadata: Mapping[str, str], body: bytes, standard: Standard) -> tuple[str, ...]:
    """The warnings about a version with this metadata and body.

    Raises ContentRefused, PolicyInvalid, PolicyRefused.
    """
    policy = standard.policy if isinstance(standard.policy, Policy) else None
    personal = policy.personal_data if policy else PersonalData.OFF
    findings = [
        *standard.findings,
        *content.inspect_metadata(metadata, personal=personal is not PersonalData.OFF),
    ]
    refused = [finding for finding in findings if not finding.personal or personal is PersonalData.BLOCK]
    if refused:
        raise ContentRefused(content.refusal_text(refused))
    if write.path == POLICY_PATH:
        _check_policy(body)
    elif isinstance(standard.policy, PolicyError):
        raise PolicyInvalid(f"the policy document {POLICY_PATH} is invalid: {standard.policy}; publish a valid one")
    warnings = tuple(str(finding) for finding in findings)
    if policy is None or write.credential == "local" or write.op == "propose":
        return warnings
    violations = policy.violations(write.path, metadata)
    asked = policy.strictness is Strictness.ASK
    if violations and policy.strictness is not Strictness.WARN and not (asked and isinstance(write.accepts, Settle)):
        raise PolicyRefused(refusal_text(policy.strictness, violations), ask=asked)
    return violations + warnings


def _check_policy(body: bytes) -> None:
    try:
        parse_policy(body)
    except PolicyError as error:
        raise PolicyInvalid(f"invalid policy: {error}") from None
