"""`mark://` URLs: where a server is, which name it must prove, and the one spelling that identifies a document.

Source: Mark protocol, URLs and path rules; authority, dial address, server name.
"""

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote_to_bytes

from mark_protocol.paths import clean

DEFAULT_PORT = 6309

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ANY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST = re.compile(r"""[^\x00-\x20\x7f"#%/<>?@\[\\\]^`{|}:]+""")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class URLError(ValueError):
    """Text that is no `mark://` URL."""


@dataclass(frozen=True, slots=True)
class MarkURL:
    """A parsed URL: `host` in lower case and without brackets, `path` decoded, `fragment` decoded."""

    host: str
    port: int = DEFAULT_PORT
    path: str = "/"
    fragment: str = ""

    @property
    def authority(self) -> str:
        """`host:port`, always with the port: what is dialled, and the key of caches and credentials."""
        return f"{self._bracketed}:{self.port}"

    @property
    def server_name(self) -> str:
        """The name the server's certificate must have: the host without the port."""
        return self.host

    @property
    def identity(self) -> str:
        """The document's one spelling, without the fragment: default port left out, path escaped."""
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        path = quote(self.path, safe="$&+,/:;=@-._~", errors="surrogateescape")
        host = self._bracketed.replace("%", "%25")  # the zone of an IPv6 address (RFC 6874)
        return f"mark://{host}{port}{path}"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(text: str) -> MarkURL:
    """Read a URL. User info and query are dropped. Raises URLError, which names what is wrong."""
    if _CONTROLS.search(text):
        raise URLError("a URL has no control characters")
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() != "mark":
        raise URLError("a URL of this protocol begins with mark://")
    rest, _, fragment = text[scheme.end() :].partition("#")
    rest, _, _ = rest.partition("?")
    authority, slash, path = rest.partition("/")
    host, port = _host_and_port(authority.rpartition("@")[2])
    return MarkURL(host, port, _decoded(slash + path) or "/", _decoded(fragment))


def resolve(base: MarkURL, reference: str) -> MarkURL | None:
    """Where a reference in a document leads; None if that is no document of this protocol.

    The query is dropped, and the path is canonical. In a directory's listing the base ends with a slash.
    """
    try:
        if reference.startswith("//"):
            return _canonical(parse_url(f"mark:{reference}"))
        if _ANY_SCHEME.match(reference):
            return _canonical(parse_url(reference))
        rest, _, fragment = reference.partition("#")
        path = _decoded(rest.partition("?")[0])
        if not path:
            path = base.path
        elif not path.startswith("/"):
            path = f"{base.path.rpartition('/')[0]}/{path}"
        return _canonical(MarkURL(base.host, base.port, path, _decoded(fragment)))
    except URLError:
        return None


def _canonical(url: MarkURL) -> MarkURL:
    return replace(url, path=clean(url.path))


def _host_and_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        valid = bool(bracket) and _IPV6.fullmatch(host) is not None and (not port or port.startswith(":"))
        port = port[1:]
        host = host.replace("%25", "%")
    else:
        host, _, port = text.partition(":")
        valid = _HOST.fullmatch(host) is not None
    if not valid:
        raise URLError("a URL names a host: a name, an IPv4 address, or an IPv6 address in brackets")
    if not port:
        return host.lower(), DEFAULT_PORT
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise URLError(f"the port of a URL is a number from 1 to 65535, not {port!r}")
    return host.lower(), int(port)


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise URLError("a % in a URL is followed by two hex digits")
    try:
        raw = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise URLError("a URL is text, without surrogates that stand for no byte") from None
    return unquote_to_bytes(raw).decode(errors="surrogateescape")
