//! The tables, the same on every engine. Whatever is looked up by compares byte by byte.

/// One entry per version; never edited once released, only added to.
///
/// `names.due_at` is when a sweep has something to do: the expiry of what is alive, the end of a tombstone
/// that has one. It is kept beside what it follows from so that one index serves both. Most names have none, and
/// where an index can leave those out it does: a bind then writes one place of the file and not two.
///
/// `marks` lead to a name by something else that only one name may have: the identity of the content a key
/// was derived from, the skeleton of a guarded alias. Most names have none, so they are no columns of `names`.
///
/// `refs.digest` stands for owner and text, which may be longer than an index holds.
///
/// `orders` says how the names of a keyspace lie, and `names.place` where; see [`crate::order`]. Names that were there
/// before lie as they did: by name.
///
/// `issued` has a row for each key of the keyspaces that want one (`audit`). Keys lie there as names do.
pub(crate) const STEPS: &[&[&str]] = &[FIRST, BY_PLACE, ISSUED];

const FIRST: &[&str] = &[
    "CREATE TABLE {prefix}_names (
        keyspace   {key} NOT NULL,
        name       {key} NOT NULL,
        kind       {key} NOT NULL,
        target     {text},
        owner      {text},
        created_at BIGINT NOT NULL,
        expires_at BIGINT,
        deleted_at BIGINT,
        visits     BIGINT NOT NULL,
        due_at     BIGINT,
        PRIMARY KEY (keyspace, name)
    ){table_by_key}",
    "CREATE INDEX {prefix}_names_due ON {prefix}_names (due_at){where due_at IS NOT NULL}",
    "CREATE TABLE {prefix}_marks (
        keyspace {key} NOT NULL,
        mark     {key} NOT NULL,
        name     {key} NOT NULL,
        PRIMARY KEY (keyspace, mark)
    ){table_by_key}",
    "CREATE INDEX {prefix}_marks_of ON {prefix}_marks (name)",
    "CREATE TABLE {prefix}_refs (
        keyspace   {key} NOT NULL,
        digest     {key} NOT NULL,
        owner      {text},
        reference  {text} NOT NULL,
        name       {key} NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (keyspace, digest)
    ){table_by_key}",
    "CREATE INDEX {prefix}_refs_to ON {prefix}_refs (name)",
    "CREATE TABLE {prefix}_receipts (
        scope        {key} NOT NULL PRIMARY KEY,
        attempt      {key} NOT NULL,
        body_hash    {key} NOT NULL,
        answer       {text},
        locked_until BIGINT NOT NULL,
        kept_until   BIGINT NOT NULL
    ){table_by_key}",
    "CREATE INDEX {prefix}_receipts_due ON {prefix}_receipts (kept_until)",
];

const BY_PLACE: &[&str] = &[
    "CREATE TABLE {prefix}_orders (
        keyspace   {key} NOT NULL PRIMARY KEY,
        definition {text} NOT NULL
    ){table_by_key}",
    "INSERT INTO {prefix}_orders (keyspace, definition) SELECT DISTINCT keyspace, '' FROM {prefix}_names",
    "CREATE TABLE {prefix}_placed (
        keyspace   {key} NOT NULL,
        place      BIGINT NOT NULL,
        name       {key} NOT NULL,
        kind       {key} NOT NULL,
        target     {text},
        owner      {text},
        created_at BIGINT NOT NULL,
        expires_at BIGINT,
        deleted_at BIGINT,
        visits     BIGINT NOT NULL,
        due_at     BIGINT,
        PRIMARY KEY (keyspace, place, name)
    ){table_by_key}",
    "INSERT INTO {prefix}_placed
        SELECT keyspace, -1, name, kind, target, owner, created_at, expires_at, deleted_at, visits, due_at
        FROM {prefix}_names",
    "DROP TABLE {prefix}_names",
    "ALTER TABLE {prefix}_placed RENAME TO {prefix}_names",
    "CREATE INDEX {prefix}_names_due ON {prefix}_names (due_at){where due_at IS NOT NULL}",
];

const ISSUED: &[&str] = &["CREATE TABLE {prefix}_issued (
        keyspace  {key} NOT NULL,
        place     BIGINT NOT NULL,
        name      {key} NOT NULL,
        node      {key} NOT NULL,
        issued_at BIGINT NOT NULL,
        PRIMARY KEY (keyspace, place, name)
    ){table_by_key}"];
