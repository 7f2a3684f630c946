"""Statuses of responses, the words that are fixed on the wire, and the body of an error.

Source: Mark protocol, status values; response grammar.
"""

from enum import StrEnum


class Status(StrEnum):
    """What a response says about its request. A value unknown to a reader is a failure."""

    OK = "ok"
    CREATED = "created"
    NOT_MODIFIED = "not-modified"
    NOT_FOUND = "not-found"
    ARCHIVED = "archived"
    UNAUTHORIZED = "unauthorized"
    NOT_PERMITTED = "not-permitted"
    CONFLICT = "conflict"
    BAD_REQUEST = "bad-request"
    SERVER_ERROR = "server-error"
    RATE_LIMITED = "rate-limited"
    RESYNC = "resync"
    CLOSING = "closing"


# Messages that clients of the protocol compare or show; the wording is part of the wire.
BAD_REQUEST = "bad request"
COULD_NOT_READ_REQUEST = "could not read request"
INTERNAL_ERROR = "internal error"
READ_ONLY = "server is read-only"
HASH_PATH_RESERVED = "paths matching /sha256-<hash> are reserved"
CONTENT_TOO_LARGE = "content exceeds size limit"
PUBLISHING_NEEDS_TOKENS = "publishing requires auth configuration"
ARCHIVING_NEEDS_TOKENS = "archiving requires auth configuration"
APPENDING_NEEDS_TOKENS = "appending requires auth configuration"
AUTHENTICATION_REQUIRED = "authentication required"
INSUFFICIENT_PERMISSIONS = "insufficient permissions"
PATH_MUST_END_IN_MD = "publish path must end in .md"
BODY_MUST_BE_TEXT = "document body must be valid UTF-8 text"
INVALID_EXPECTED_VERSION = "invalid expected-version"
APPEND_NEEDS_BODY = "append requires a body"
APPEND_NEEDS_EXPECTED_VERSION = "APPEND requires expected-version metadata"
APPEND_INVALID_EXPECTED_VERSION = "invalid expected-version for APPEND (must be >= 1)"
DOCUMENT_ARCHIVED = "document is archived; unarchive first"
CHAIN_CHECK_FAILED = "chain integrity check failed"
INVALID_INCLUDE_ARCHIVED = "include-archived must be true or false"
INVALID_PAGE_SIZE = "page-size must be between 1 and 1000"
QUERY_TOO_SHORT = "query must be at least 2 characters"
INVALID_LIMIT = "invalid limit"
INVALID_SINCE = "invalid since cursor"

# The body of `FETCH /health`; unlike an error's it has no empty line in front.
HEALTH_BODY = b"# Health Check\n\nServer is healthy.\n"


def error_body(status: str, message: str) -> bytes:
    """The body of a response that reports a failure: an empty line, a title made from the status, the message.

    The message may carry the path as it was sent, in the form `Request.path` has.
    """
    title = status[:1].upper() + status[1:].replace("-", " ")
    return f"\n# {title}\n\n{message}\n".encode(errors="surrogateescape")
