"""Limits of the protocol, in bytes unless the name says otherwise.

Source: Mark protocol, limits in one place.
"""

REQUEST_LINE = 4096
# Short enough that VERSIONS, the longest verb, can name every path that any other verb can.
PATH = 4087
METADATA_BLOCK = 65_536
BODY = 1_048_576
# What may follow the request line: a block, a body and its fences.
REQUEST_PAYLOAD = METADATA_BLOCK + BODY + 64
RESPONSE = 4 * BODY

PUBLISHER_KEYS = 50  # entries
PUBLISHER_METADATA = 1024
STORED_VERSION = BODY + 2048
VERSION_NUMBER = 2**31 - 1  # the highest

LIST_PAGE_ENTRIES = 1000  # entries
LIST_BODY = BODY
LIST_CURSOR = 8178

LOOKUP_DEFAULT = 10  # rows
LOOKUP_ROWS = 1000  # rows
LOOKUP_TERMS = 32  # distinct terms
LOOKUP_SNIPPET = 240
WATCH_BLOCK = 8192

# Names that every store can keep (one rule for all of them).
SEGMENT = 255
STORABLE_PATH = 900
STORE_KEY = 1024
