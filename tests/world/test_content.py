"""Secrets and personal data: what is found, what is not, and that nobody repeats it."""

import json
import random
import string
from base64 import urlsafe_b64encode
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from demarkus_world.content import TOLD, Finding, inspect_body, inspect_metadata, refusal_text
from demarkus_world.content_secrets import SHAPES, entropy, is_random
from demarkus_world.policy import POLICY_PATH, PersonalData, Policy
from tests.benchmarks.content import measure

CORPUS = Path(__file__).parent / "corpus"
WORD = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
DICE = random.Random(11)


def drawn(size: int, alphabet: str = WORD) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(size))


def a_jwt() -> str:
    def part(value: dict[str, str]) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256'})}.{part({'sub': 'kettle', 'scope': 'everything'})}.{drawn(43)}"


def a_pem(kind: str = "RSA ") -> str:
    lines = "\n".join(drawn(64) for _ in range(6))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


# Written in two pieces, so that no file of ours looks as if it held one.
SAMPLES = {
    "private-key": a_pem(),
    "age-key": "AGE-SECRET-" + "KEY-1" + drawn(58, string.ascii_uppercase + string.digits),
    "json-web-token": a_jwt(),
    "aws-access-key": "AK" + "IA" + drawn(16, string.ascii_uppercase + "234567"),
    "google-api-key": "AI" + "za" + drawn(35),
    "google-oauth-secret": "GOC" + "SPX-" + drawn(28),
    "google-oauth-token": "ya" + "29." + drawn(60),
    "azure-storage-key": "Account" + "Key=" + drawn(86) + "==",
    "azure-client-secret": drawn(3) + "8" + "Q~" + drawn(34),
    "digitalocean-token": "dop" + "_v1_" + drawn(64, HEX),
    "github-token": "gh" + "p_" + drawn(36),
    "gitlab-token": "gl" + "pat-" + drawn(20),
    "atlassian-token": "ATA" + "TT3" + drawn(186),
    "bitbucket-token": "AT" + "BB" + drawn(32),
    "slack-token": "xo" + "xb-" + drawn(12, string.digits) + "-" + drawn(24),
    "slack-webhook": "https://hooks.slack" + ".com/services/T" + drawn(9) + "/B" + drawn(9) + "/" + drawn(24),
    "discord-webhook": "https://discord.com/api" + "/webhooks/123456789012345678/" + drawn(68),
    "telegram-token": "8273645190:" + "AA" + drawn(33),
    "stripe-key": "sk" + "_live_" + drawn(24),
    "sendgrid-key": "S" + "G." + drawn(22) + "." + drawn(43),
    "mailgun-key": "ke" + "y-" + drawn(32, HEX),
    "npm-token": "np" + "m_" + drawn(36),
    "pypi-token": "pypi-" + "AgE" + drawn(100),
    "rubygems-token": "ruby" + "gems_" + drawn(48, HEX),
    "docker-token": "dckr" + "_pat_" + drawn(27),
    "vault-token": "hv" + "s." + drawn(90),
    "terraform-token": drawn(14) + ".atlas" + "v1." + drawn(67),
    "openai-key": "sk-" + drawn(20) + "T3Blbk" + "FJ" + drawn(20),
    "anthropic-key": "sk-" + "ant-api03-" + drawn(95),
    "hugging-face-token": "h" + "f_" + drawn(34, string.ascii_letters),
    "shopify-token": "shp" + "at_" + drawn(32, HEX),
    "grafana-token": "gl" + "sa_" + drawn(32) + "_" + drawn(8, HEX),
    "databricks-token": "da" + "pi" + drawn(32, HEX),
}
BESIDE = (
    "password: " + drawn(24),
    "DEMARKUS_AUTH=" + drawn(64, HEX),
    'api_key = "' + drawn(32) + '"',
    "Authorization: Bearer " + drawn(40),
    "| client secret | x |\nclient_secret=" + drawn(28),
)


class TestSecrets:
    def test_every_shape_has_a_sample(self) -> None:
        assert {shape.kind for shape in SHAPES} == set(SAMPLES)

    @pytest.mark.parametrize("kind", SAMPLES)
    def test_a_key_is_found_where_it_stands(self, kind: str) -> None:
        text = f"# Notes\n\nKeep this: `{SAMPLES[kind]}` and go on.\n"
        found = inspect_body(text.encode(), personal=False)
        assert Finding(kind, "line 3") in found

    @pytest.mark.parametrize("text", BESIDE)
    def test_random_text_beside_a_telling_word_is_found(self, text: str) -> None:
        found = inspect_body(f"# Notes\n{text}\n".encode(), personal=False)
        assert [finding.kind.startswith("random-text-after-") for finding in found] == [True] * len(found) != []

    @pytest.mark.parametrize("kind", sorted(set(SAMPLES) - {"private-key", "json-web-token"}))
    def test_the_same_shape_without_randomness_is_a_placeholder(self, kind: str) -> None:
        sample = SAMPLES[kind]
        shape = next(shape for shape in SHAPES if shape.kind == kind)
        for shape in (shape for shape in SHAPES if shape.kind == kind):
            match = shape.pattern.search(sample)
            if match is not None:
                dull = sample.replace(match[1], "x" * len(match[1]))
                assert inspect_body(dull.encode(), personal=False) == ()

    @pytest.mark.parametrize(
        "text",
        [
            "password: <your password here>",
            "token = os.environ['SERVICE_ACCOUNT_TOKEN_2']",
            "auth: sha256-" + drawn(64, HEX),
            "secret: my-very-long-secret-name-of-v2-service",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "-----BEGIN PUBLIC KEY-----\n" + drawn(64) + "\n-----END PUBLIC KEY-----",
            "commit " + drawn(40, HEX),
            "AKIAIOSFODNN7" + "EXAMPLE",
            "tokens: 1234567890123456789012345",
        ],
    )
    def test_what_only_looks_like_one_is_not(self, text: str) -> None:
        assert inspect_body(text.encode(), personal=False) == ()

    def test_randomness_is_measured(self) -> None:
        assert entropy("aaaa") == 0
        assert entropy("abcd") == 2
        assert sum(is_random(drawn(20)) for _ in range(300)) >= 290
        assert sum(is_random(drawn(32, HEX)) for _ in range(300)) >= 285
        assert not is_random("administrator-administrator")

    def test_metadata_is_looked_at_with_its_key(self) -> None:
        found = inspect_metadata(
            {"api-token": drawn(32), "title": SAMPLES["github-token"], "tags": "a"}, personal=False
        )
        assert [finding.where for finding in found] == ["metadata api-token", "metadata title"]


class TestPersonalData:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("write to ada.lovelace@analytical.co.uk, please", "e-mail"),
            ("call +49 30 901820 now", "phone-number"),
            ("call +1 (212) 736-5000 now", "phone-number"),
            ("IBAN DE02 1203 0000 0000 2020 51.", "iban"),
            ("GB33BUKB20201555555555", "iban"),
            ("card 4539 1488 0343 6467 ok", "card-number"),
            ("card 371449635398432", None),
            ("IBAN DE02 1203 0000 0000 2020 52.", None),
            ("card 4539 1488 0343 6468", None),
            ("order 4111111111111111", None),
            ("git@github.com:demarkus/x.git and you@example.com, logo@2x.png", None),
            ("1 + 2345678901, +- 3, +1-555-0100, 2026-11-30", None),
        ],
    )
    def test_checksums_and_context_decide(self, text: str, kind: str | None) -> None:
        found = inspect_body(f"\n{text}\n".encode(), personal=True)
        assert list(found) == ([Finding(kind, "line 2", True)] if kind else [])

    def test_nobody_looks_unless_asked(self) -> None:
        assert inspect_body(b"ada@analytical.co.uk", personal=False) == ()

    def test_who_wrote_may_be_named(self) -> None:
        keys = {"user": "ada@analytical.co.uk", "agent": "x", "description": "by ada@analytical.co.uk"}
        assert inspect_metadata(keys, personal=True) == (Finding("e-mail", "metadata description", True),)


def test_no_mixture_of_beginnings_is_stumbled_over() -> None:
    anchors = [anchor for shape in SHAPES for anchor in shape.anchors]
    pieces = [
        *anchors,
        *SAMPLES.values(),
        "@",
        "+",
        "a@b.co",
        "token",
        ": ",
        "\n",
        " ",
        "\x00",
        "é",
        "İ",
        "4111",
        "DE89",
    ]
    for size in range(1, 200):
        text = "".join(DICE.choice(pieces) for _ in range(size))
        for finding in inspect_body(text.encode(), personal=True):
            line = int(finding.where.removeprefix("line "))
            assert 1 <= line <= text.count("\n") + 1


class TestRefusal:
    async def test_a_secret_is_refused_in_every_world_and_never_repeated(
        self, a_world: Callable[..., Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        for compatible in (False, True):
            world = await a_world(compatible=compatible)
            body = f"# Keys\n\n{SAMPLES['github-token']}\n".encode()
            refused = await world.ask("PUBLISH", "/a.md", body)
            assert refused.status == "bad-request"
            assert refused.body == (
                b"\n# Bad request\n\ncontent check refused this write:\n- secret: github-token at line 3\n\n"
            )
            assert SAMPLES["github-token"] not in caplog.text
            assert (await world.ask("FETCH", "/a.md")).status == "not-found"

    async def test_an_append_is_looked_at_as_a_whole(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        half = SAMPLES["private-key"].split("\n", 3)
        await world.publish("/a.md", ("\n".join(half[:1]) + "\n").encode())
        refused = await world.ask("APPEND", "/a.md", "\n".join(half[1:]).encode(), expected_version="1")
        assert b"- secret: private-key at line 1\n" in refused.body

    async def test_a_large_body_is_looked_at_in_a_thread(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        text = "a line of text\n" * 20_000 + SAMPLES["npm-token"]
        refused = await world.ask("PUBLISH", "/a.md", text.encode())
        assert b"- secret: npm-token at line 20001\n" in refused.body

    @pytest.mark.parametrize(("word", "status"), [("off", "created"), ("warn", "created"), ("block", "bad-request")])
    async def test_personal_data_is_as_the_policy_says(
        self, a_world: Callable[..., Any], word: str, status: str
    ) -> None:
        world = await a_world()
        await world.publish(POLICY_PATH, f"personal_data: {word}\n".encode(), tags="policy")
        response = await world.ask("PUBLISH", "/a.md", b"ada@analytical.co.uk", tags="people")
        assert response.status == status
        if word == "warn":
            assert response.metadata["policy-warning"] == "personal-data: e-mail at line 1"
        if word == "block":
            assert b"- personal-data: e-mail at line 1\n" in response.body

    async def test_secrets_come_before_personal_data_before_policy(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(policy=Policy(personal_data=PersonalData.BLOCK))
        refused = await world.ask("PUBLISH", "/a.md", f"ada@analytical.co.uk\n{SAMPLES['npm-token']}".encode())
        assert refused.body.index(b"secret: npm-token") < refused.body.index(b"personal-data: e-mail")

    def test_a_long_list_is_cut(self) -> None:
        text = refusal_text(Finding("e-mail", f"line {line}", True) for line in range(1, TOLD + 4))
        assert text.endswith("- and 3 more\n")


class TestFalseAlarms:
    def test_our_own_corpus_of_likenesses_raises_none(self) -> None:
        texts = [(file.name, file.read_bytes()) for file in sorted(CORPUS.glob("*.md"))]
        measured = measure(iter(texts))
        assert measured.documents >= 3
        assert measured.found == {}

    def test_what_installed_packages_say_of_themselves_raises_hardly_any(self) -> None:
        texts = ((d.name, str(d.read_text("METADATA")).encode()) for d in metadata.distributions())
        measured = measure(texts)
        told = {name: found for name, found in measured.found.items() if any(not f.personal for f in found)}
        # Two of them show tokens in full, in their manuals.
        assert measured.rate() <= 0.03, told
