-- The catalog: what the log adds up to. Hashes are BLOBs of 32 bytes, times ms since 1970.
-- Text compares by its UTF-8 bytes, which is the order of listings.

-- Whose log this is, and in which boot of the machine it was last written: nothing here is synced to the disk.
CREATE TABLE origin (
    history     TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    boot        TEXT NOT NULL
);

-- How far the log is taken in: its newest entry, the slot (hash, first entry) that holds it, the Merkle tree's right
-- edge; and what all documents (archived ones too) and their retained versions come to. One row.
CREATE TABLE tip (
    sequence  INTEGER NOT NULL,
    first     INTEGER NOT NULL,
    slot      BLOB    NOT NULL,
    time      INTEGER NOT NULL,
    edge      BLOB    NOT NULL,
    documents INTEGER NOT NULL,
    bytes     INTEGER NOT NULL
);

-- visible: a document is below that no name on the way hides. live: how many of those are not archived.
CREATE TABLE directory (
    id      INTEGER PRIMARY KEY,
    path    TEXT    NOT NULL UNIQUE,
    visible INTEGER NOT NULL,
    live    INTEGER NOT NULL
);

-- first, newest: the retained versions. predecessor: the hash of the version before `first`, once any was pruned.
-- body: the newest version's. metadata: its JSON, NULL while, or because, its bytes could not be read.
CREATE TABLE document (
    id          INTEGER PRIMARY KEY,
    path        TEXT    NOT NULL UNIQUE,
    first       INTEGER NOT NULL,
    newest      INTEGER NOT NULL,
    predecessor BLOB,
    archived    INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    metadata    TEXT
);
CREATE INDEX document_by_body ON document (body) WHERE NOT archived;
CREATE INDEX document_unread ON document (id) WHERE metadata IS NULL;

-- A name in a directory is a document or a directory.
CREATE TABLE child (
    directory INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    document  INTEGER,
    below     INTEGER,
    PRIMARY KEY (directory, name)
) WITHOUT ROWID;

CREATE TABLE author (
    id         INTEGER PRIMARY KEY,
    name       TEXT,
    credential TEXT
);
CREATE INDEX author_by_name ON author (name, credential);

-- blob: the key, or, where the key follows from the other columns, the 4 bytes of its nonce.
CREATE TABLE version (
    document INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    stored   BLOB    NOT NULL,
    body     BLOB    NOT NULL,
    size     INTEGER NOT NULL,
    blob             NOT NULL,
    modified INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    author   INTEGER NOT NULL,
    PRIMARY KEY (document, number)
) WITHOUT ROWID;

-- What LOOKUP searches of the newest versions that could be read (Mark protocol 8.1), all in one table. `title` and
-- `tags` are in lower case for comparison, each tag between line ends; `heading` is the title as it is shown.
-- live: not archived. modified: whole seconds.
CREATE TABLE catalog (
    document   INTEGER PRIMARY KEY,
    path       TEXT    NOT NULL,
    live       INTEGER NOT NULL,
    heading    TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    tags       TEXT    NOT NULL,
    importance REAL    NOT NULL,
    modified   INTEGER NOT NULL
);
CREATE INDEX catalog_by_rank ON catalog (importance DESC, modified DESC, path) WHERE live;

-- The runs of three characters in `title` and `tags`, under the id of the document; no text, and not where they stand.
CREATE VIRTUAL TABLE trigram USING fts5 (
    text, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1'
);
