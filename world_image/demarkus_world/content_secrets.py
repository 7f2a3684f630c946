"""Secrets in text: keys and tokens by their shape, and random text by its context.

Each shape is looked for from a literal that every match holds (`anchor`), which is fast on a megabyte and leaves the
loop free between matches. What merely has the shape (a placeholder, an example of a manual) is no secret: the random
part has to be as varied as random text is.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

REACH = 512
"""Characters behind an anchor in which a match ends; what is longer is recognised by its beginning."""

SHORT_REACH = 160
"""The same where the beginning has to be searched for too, which takes longer."""

_PLACEHOLDERS = re.compile(
    r"example|sample|dummy|placeholder|changeme|change-me|your|redacted|secret|password|token|xxxx|\.\.\.|<|\{|\$"
    r"|(.)\1{4}|0123456|1234567|abcdef|abcd1234",
    re.IGNORECASE,
)


def entropy(text: str) -> float:
    """Shannon entropy, in bits for each character."""
    size = len(text)
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values()) if size else 0.0


def is_random(text: str) -> bool:
    """Whether text is as varied as random text of its length and alphabet, and no placeholder."""
    if len(text) < 8 or _PLACEHOLDERS.search(text):
        return False
    hexadecimal = all(character in "0123456789abcdefABCDEF" for character in text)
    # Random text of n characters has about log2(n) bits while n is small against its alphabet.
    most = min(math.log2(len(text)), 4.0 if hexadecimal else 6.0)
    return entropy(text) >= 0.78 * most


class Shape(NamedTuple):
    """One kind of secret. A match begins at most `before` characters before the anchor; its last group is judged."""

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    before: int = 0
    accept: Callable[[str], bool] = is_random


def _shape(kind: str, anchors: str, pattern: str, before: int = 0, accept: Callable[[str], bool] = is_random) -> Shape:
    return Shape(kind, tuple(anchors.split()), re.compile(pattern), before, accept)


def _is_key_body(text: str) -> bool:
    """Whether what follows the first line of a PEM key is key material, and not three dots."""
    lines = re.split(r"\\r\\n|\\n|\n", text)
    material = "".join(re.sub(r"[^A-Za-z0-9+/=]", "", line) for line in lines if ":" not in line)
    return len(material) >= 64 and entropy(material[:256]) >= 4.0


def _is_jwt(text: str) -> bool:
    """Whether it is a signed JSON Web Token, other than the well-known specimen."""
    header, payload, signature = text.split(".")
    try:
        known = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (header, payload)]
        algorithm = json.loads(known[0]).get("alg")
    except (binascii.Error, ValueError, AttributeError):
        return False
    return bool(algorithm) and b"1234567890" not in known[1] and is_random(signature)


_W = r"[A-Za-z0-9]"
_EDGE = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_-])"

SHAPES: tuple[Shape, ...] = (
    _shape(
        "private-key",
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----((?:(?!-----)[\s\S]){1,400})",
        accept=_is_key_body,
    ),
    _shape("age-key", "AGE-SECRET-KEY-1", rf"AGE-SECRET-KEY-1([0-9A-Z]{{58}}){_END}"),
    _shape(
        "json-web-token",
        "eyJ",
        rf"{_EDGE}(eyJ[\w-]{{8,}}\.eyJ[\w-]{{8,}}\.[\w-]{{20,}})",
        accept=_is_jwt,
    ),
    _shape("aws-access-key", "AKIA ASIA", rf"{_EDGE}(?:AKIA|ASIA)([A-Z2-7]{{16}}){_END}"),
    _shape("google-api-key", "AIza", rf"{_EDGE}AIza([\w-]{{35}}){_END}"),
    _shape("google-oauth-secret", "GOCSPX-", rf"GOCSPX-([\w-]{{28}}){_END}"),
    _shape("google-oauth-token", "ya29.", rf"{_EDGE}ya29\.([\w-]{{30,}})"),
    _shape("azure-storage-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{86})=="),
    _shape("azure-client-secret", "8Q~", rf"{_EDGE}([\w.~-]{{3}}8Q~[\w.~-]{{31,34}}){_END}", before=3),
    _shape("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{_EDGE}do[opr]_v1_([0-9a-f]{{64}}){_END}"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_EDGE}gh[pousr]_({_W}{{36,}}){_END}"),
    _shape("github-token", "github_pat_", rf"{_EDGE}github_pat_({_W}{{22}}_{_W}{{59}}){_END}"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glsoat- glft-",
        rf"{_EDGE}gl(?:pat|dt|rt|cbt|ptt|soat|ft)-([\w-]{{20,}})",
    ),
    _shape("atlassian-token", "ATATT3", rf"{_EDGE}ATATT3([\w=-]{{100,}})"),
    _shape("bitbucket-token", "ATBB", rf"{_EDGE}ATBB({_W}{{32}}){_END}"),
    _shape("slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-", rf"{_EDGE}x(?:ox[bpares]|app)-([\w-]{{24,}})"),
    _shape("slack-webhook", "hooks.slack.com", rf"hooks\.slack\.com/services/T\w{{6,}}/B\w{{6,}}/({_W}{{24}}){_END}"),
    _shape("discord-webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{17,20}/([\w-]{60,})", before=14),
    _shape("telegram-token", ":AA", rf"(?<![\w:])\d{{8,10}}:AA([\w-]{{33}}){_END}", before=10),
    _shape("stripe-key", "sk_live_ rk_live_", rf"{_EDGE}[sr]k_live_({_W}{{20,}})"),
    _shape("sendgrid-key", "SG.", rf"{_EDGE}SG\.([\w-]{{22}}\.[\w-]{{43}}){_END}"),
    _shape("mailgun-key", "key-", rf"{_EDGE}key-([0-9a-f]{{32}}){_END}"),
    _shape("npm-token", "npm_", rf"{_EDGE}npm_({_W}{{36}}){_END}"),
    _shape("pypi-token", "pypi-AgE", rf"{_EDGE}pypi-AgE([\w-]{{60,}})"),
    _shape("rubygems-token", "rubygems_", rf"{_EDGE}rubygems_([0-9a-f]{{48}}){_END}"),
    _shape("docker-token", "dckr_pat_", rf"{_EDGE}dckr_pat_([\w-]{{27}}){_END}"),
    _shape("vault-token", "hvs.", rf"{_EDGE}hvs\.([\w-]{{24,}})"),
    _shape("terraform-token", ".atlasv1.", rf"{_EDGE}{_W}{{14}}\.atlasv1\.([\w-]{{60,}})", before=14),
    _shape("openai-key", "T3BlbkFJ", rf"{_EDGE}sk-[\w-]{{0,100}}T3BlbkFJ([\w-]{{20,}})", before=110),
    _shape("anthropic-key", "sk-ant-", rf"{_EDGE}sk-ant-[a-z0-9]+-([\w-]{{80,}})"),
    _shape("hugging-face-token", "hf_", rf"{_EDGE}hf_([A-Za-z]{{34}}){_END}"),
    _shape("shopify-token", "shpat_ shpca_ shppa_ shpss_", rf"{_EDGE}shp(?:at|ca|pa|ss)_([0-9a-fA-F]{{32}}){_END}"),
    _shape("grafana-token", "glsa_", rf"{_EDGE}glsa_({_W}{{32}})_[0-9a-f]{{8}}{_END}"),
    _shape("databricks-token", "dapi", rf"{_EDGE}dapi([0-9a-f]{{32}}){_END}"),
)

_WORDS = ("passw", "passphrase", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key",
          "accesskey", "account_key", "credential", "auth")  # fmt: skip
"""Words beside which random text is a secret, in lower case."""

_BESIDE = re.compile(
    r"""[\w-]{0,40}["'`]?[ \t]{0,3}(?::=|=>|=|:)[ \t]{0,3}(?:bearer[ \t]+)?["'`]?"""
    r"""([A-Za-z0-9+/_~-][A-Za-z0-9+/_.~-]{15,199}={0,2})(?![\w(\[/.:])""",
    re.IGNORECASE,
)
_DIGEST = re.compile(r"(?:sha\d+|md5|blake\w+)[-:=]", re.IGNORECASE)


def secrets(text: str) -> Iterator[tuple[int, str]]:
    """(offset, kind) of every secret found."""
    for shape in SHAPES:
        for anchor in shape.anchors:
            at = text.find(anchor)
            while at >= 0:
                if shape.before:
                    found = shape.pattern.search(text, max(0, at - shape.before), at + SHORT_REACH)
                else:
                    found = shape.pattern.match(text, at, at + REACH)
                if found is not None and shape.accept(found[1]):
                    yield found.start(), shape.kind
                at = text.find(anchor, at + len(anchor))
    yield from _beside_words(text)


def _beside_words(text: str) -> Iterator[tuple[int, str]]:
    lower = text.lower()
    if len(lower) != len(text):
        lower = text  # a letter whose lower case is longer: offsets would not fit
    for word in _WORDS:
        at = lower.find(word)
        while at >= 0:
            found = _BESIDE.match(text, at + len(word), at + REACH)
            if found is not None and _is_key_text(found[1]):
                yield found.start(1), f"random-text-after-{word.rstrip('w')}"
            at = lower.find(word, at + len(word))


def _is_key_text(text: str) -> bool:
    """Whether text that stands where a secret would is made by a machine: no name, path, digest or address."""
    if _DIGEST.match(text):
        return False
    letters = [character for character in text if character.isalpha()]
    digits = sum(character.isdigit() for character in text)
    if all(character in "0123456789abcdef" for character in text):
        return len(text) in (32, 40, 48, 64, 96, 128) and len(letters) > 0 and is_random(text)
    mixed = any(letter.isupper() for letter in letters) and any(letter.islower() for letter in letters)
    return mixed and digits >= 1 and len(text) >= 20 and is_random(text) and not _reads(text)


def _reads(text: str) -> bool:
    """Whether it is made of words, as names and paths are: then its letters seldom change between kinds."""
    kinds = [(character.isupper(), character.islower()) for character in text]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes < 0.4 * len(text)
