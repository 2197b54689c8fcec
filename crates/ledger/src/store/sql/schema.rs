//! The tables, the same on every engine. Numbers are below 2^63, so a signed column holds them; names and
//! keys compare byte by byte.

/// One entry per version; never edited once released, only added to.
///
/// `keymill_tracks.next_number` is the track's cursor. `keymill_claims.pending` is kept beside what it follows
/// from (open, and not all issued), because an index must not hold the millions that are done with.
pub(super) const STEPS: &[&[&str]] = &[&[
    "CREATE TABLE {prefix}_head (
        one          BIGINT NOT NULL PRIMARY KEY,
        id           {key} NOT NULL,
        created_at   BIGINT NOT NULL,
        incarnation  {text} NOT NULL,
        halt_reason  {text},
        halted_since BIGINT,
        advances     BIGINT NOT NULL,
        region       BIGINT,
        changes      BIGINT NOT NULL,
        root         {key},
        keyspaces    BIGINT NOT NULL
    ){table}",
    "CREATE TABLE {prefix}_nodes (
        name       {key} NOT NULL PRIMARY KEY,
        epoch      BIGINT NOT NULL,
        beat       BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        last_seen  BIGINT NOT NULL,
        stopped    BOOLEAN NOT NULL,
        report     {text} NOT NULL
    ){table}",
    "CREATE TABLE {prefix}_tracks (
        track       {key} NOT NULL PRIMARY KEY,
        next_number BIGINT NOT NULL,
        revision    BIGINT NOT NULL,
        claims      BIGINT NOT NULL,
        reserved    BIGINT NOT NULL,
        issued      BIGINT NOT NULL,
        burned      BIGINT NOT NULL,
        holes       BIGINT NOT NULL
    ){table}",
    "CREATE TABLE {prefix}_holes (
        track  {key} NOT NULL,
        number BIGINT NOT NULL,
        kind   {key} NOT NULL,
        PRIMARY KEY (track, number)
    ){table}",
    "CREATE TABLE {prefix}_claims (
        track          {key} NOT NULL,
        first_number   BIGINT NOT NULL,
        end_number     BIGINT NOT NULL,
        node           {key} NOT NULL,
        epoch          BIGINT NOT NULL,
        reserved_at    BIGINT NOT NULL,
        issued_up_to   BIGINT NOT NULL,
        last_issued_at BIGINT,
        state          {key} NOT NULL,
        unissued       {text} NOT NULL,
        pending        BOOLEAN NOT NULL,
        PRIMARY KEY (track, first_number)
    ){table}",
    "CREATE INDEX {prefix}_pending_claims ON {prefix}_claims (node, pending)",
    "CREATE TABLE {prefix}_keyspaces (
        name        {key} NOT NULL PRIMARY KEY,
        definition  {text} NOT NULL,
        fingerprint {key} NOT NULL,
        tuning      {text} NOT NULL,
        retired     BOOLEAN NOT NULL,
        created_at  BIGINT NOT NULL
    ){table}",
    "CREATE TABLE {prefix}_leases (
        keyspace   {key} NOT NULL,
        worker     BIGINT NOT NULL,
        holder     {key} NOT NULL,
        term       BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        released   BOOLEAN NOT NULL,
        PRIMARY KEY (keyspace, worker)
    ){table}",
    "CREATE TABLE {prefix}_tokens (
        id   {key} NOT NULL PRIMARY KEY,
        body {text} NOT NULL
    ){table}",
    "CREATE TABLE {prefix}_witnesses (
        node {key} NOT NULL PRIMARY KEY,
        body {text} NOT NULL
    ){table}",
]];
