-- The sections of the newest versions and their words. It follows the catalog, and is made anew when it is lost.

CREATE TABLE origin (
    history     TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    boot        TEXT NOT NULL
);

-- stored: the hash of the version whose sections are here. about: the words of its title and tags.
CREATE TABLE indexed (
    id     INTEGER PRIMARY KEY,
    path   TEXT NOT NULL UNIQUE,
    stored BLOB NOT NULL,
    about  TEXT NOT NULL
);

-- place: the order in the document; -1 is the document as a whole. trail: the words of the headings above and its own.
CREATE TABLE section (
    id      INTEGER PRIMARY KEY,
    indexed INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    anchor  TEXT    NOT NULL,
    heading TEXT    NOT NULL,
    trail   TEXT    NOT NULL,
    text    TEXT    NOT NULL
);
CREATE INDEX section_by_document ON section (indexed, place);

-- One row a section, under its id; of the document as a whole only `about`.
CREATE VIRTUAL TABLE words USING fts5 (text, trail, about, content = '', tokenize = 'ascii');
