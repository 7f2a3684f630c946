"""Personal data in text: e-mail addresses, phone numbers with a country code, IBANs and card numbers.

Bank and card numbers count only if their checksums hold, their lengths and beginnings are those of their issuers, and
they are not among the numbers that manuals use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PIECE = 65_536
"""Characters that are searched at once, so that one search never keeps the loop waiting."""

_PERSON = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-")
_DOMAIN = re.compile(r"((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+([A-Za-z]{2,24}))(?![\w@-])")
_NOBODY = re.compile(
    r"(?:git|hg|svn|no-?reply|noreply\S*|do-?not-?reply|user(?:name)?|you|me|foo|bar|name)", re.IGNORECASE
)
_NOWHERE = re.compile(r"(?:.*\.)?(?:example(?:\.[a-z]+)?|invalid|test|localhost|local|internal)", re.IGNORECASE)
_NO_DOMAIN = frozenset(
    ("png", "jpg", "jpeg", "gif", "svg", "webp", "pdf", "md", "py", "js", "ts", "go", "rs", "json", "yaml", "yml",
     "toml", "html", "css", "so")
)  # fmt: skip

_PHONE = re.compile(r"(?<![\w+./-])\+[1-9]\d{0,2}(?:[ ./-]?\(?\d{1,5}\)?){2,6}(?![\w./-]*\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_CARD = re.compile(r"(?<![\w.,/+-])\d(?:[ -]?\d){12,18}(?![\w/-]|[.,]\d)")
_GROUPED = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}")

_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15,
    "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19,
    "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
_SPECIMENS = frozenset(
    ("4111111111111111", "4242424242424242", "4000056655665556", "4012888888881881", "4222222222222",
     "5555555555554444", "5105105105105100", "2223003122003222", "378282246310005", "371449635398431",
     "6011111111111117", "6011000990139424", "3530111333300000", "30569309025904", "38520000023237",
     "GB82WEST12345698765432", "DE89370400440532013000", "GB29NWBK60161331926819",
     "FR1420041010050500013M02606", "NL91ABNA0417164300")
)  # fmt: skip


def personal_data(text: str) -> Iterator[tuple[int, str]]:
    """(offset, kind) of everything found."""
    at = text.find("@")
    while at >= 0:
        begin = _begin_of_person(text, at)
        found = _DOMAIN.match(text, at + 1, at + 255) if begin < at else None
        if found is not None and _is_somebody(text[begin:at], found[1], found[2]):
            yield begin, "e-mail"
        at = text.find("@", at + 1)
    at = text.find("+")
    while at >= 0:
        found = _PHONE.match(text, at, at + 40)
        if found is not None and _is_phone(found[0]):
            yield at, "phone-number"
        at = text.find("+", at + 1)
    for begin, end in _pieces(text):
        for found in _IBAN.finditer(text, begin, end):
            if _is_iban(found[0].replace(" ", "")):
                yield found.start(), "iban"
        for found in _CARD.finditer(text, begin, end):
            if _GROUPED.fullmatch(found[0]) and _is_card(re.sub(r"\D", "", found[0])):
                yield found.start(), "card-number"


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Pieces that end at a line's end where there is one."""
    begin = 0
    while begin < len(text):
        end = text.rfind("\n", begin, begin + PIECE) + 1 if begin + PIECE < len(text) else len(text)
        end = end if end > begin else begin + PIECE
        yield begin, end
        begin = end


def _begin_of_person(text: str, at: int) -> int:
    """Where what stands before an `@` begins."""
    begin = at
    while begin > 0 and at - begin < 64 and text[begin - 1] in _PERSON:
        begin -= 1
    return begin


def _is_somebody(person: str, domain: str, top: str) -> bool:
    return not (_NOBODY.fullmatch(person) or _NOWHERE.fullmatch(domain) or top.lower() in _NO_DOMAIN)


def _is_phone(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    # 555-01xx is nobody's; what has no separator and few digits is a sum or a diff.
    fictional = digits.startswith("1") and digits[4:8] == "5550"
    return 9 <= len(digits) <= 15 and len(set(digits)) > 3 and not fictional and (len(digits) >= 11 or " " in text)


def _is_iban(text: str) -> bool:
    if len(text) != _IBAN_LENGTHS.get(text[:2]) or text in _SPECIMENS:
        return False
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def _is_card(digits: str) -> bool:
    if digits in _SPECIMENS or len(set(digits)) < 4 or not _is_issued(digits):
        return False
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def _is_issued(digits: str) -> bool:
    """Whether a card network numbers its cards like this."""
    size, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    if digits[0] == "4":
        return size in (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720 or four == 6011 or two == 65 or 644 <= three <= 649:
        return size == 16
    if 3528 <= four <= 3589:
        return size == 16
    return (two in (34, 37) and size == 15) or ((two in (36, 38) or 300 <= three <= 305) and size == 14)
