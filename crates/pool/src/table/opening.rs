//! The first look at a pool's tables: they are made, found to be ours, or left alone.

use keymill_sql::{Access, Database, SqlError, Statements, Work, identity};

use super::{record::Place, tables::Tables};

/// What this version makes.
const VERSION: i64 = 1;

/// Tables that may not have been seen yet.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) tables: Tables,
    pub(super) owner: String,
    /// Whether tables may be made.
    pub(super) migrate: bool,
}

/// What was found.
#[derive(Debug, Clone)]
pub(super) enum Opened {
    Ours(Place),
    /// Somebody else's pool; its owner.
    Foreign(String),
    /// A table of that name, and no pool of ours.
    Strange(String),
    /// Nothing, and nothing may be made.
    Missing,
    /// Made by a newer version.
    Newer(i64),
}

impl Opening {
    pub(super) async fn open(&self, database: &Database) -> Result<Opened, SqlError> {
        match database.run(Look(self.clone())).await? {
            Opened::Missing if self.migrate => database.run(Make(self.clone())).await,
            opened => Ok(opened),
        }
    }

    async fn look<S: Statements>(&self, statements: &mut S) -> Result<Opened, SqlError> {
        let Tables { available, used, pool, .. } = &self.tables;
        // The pool's own table is looked for last and made first: whatever is found before it is not ours.
        let mut strange = None;
        let mut rows = 0;
        for table in [available, used] {
            if has_table(statements, table).await? {
                strange = Some(table.clone());
                rows += 1;
            }
        }
        if !has_table(statements, pool).await? {
            return Ok(strange.map_or(Opened::Missing, Opened::Strange));
        }
        let found = statements.query(&format!("SELECT owner, version FROM {pool}"), &[]).await?;
        let Some(found) = found.first() else { return Ok(Opened::Missing) };
        let (owner, version) = (found.text(0)?, found.integer(1)?);
        if owner != self.owner {
            return Ok(Opened::Foreign(owner));
        }
        if version > VERSION {
            return Ok(Opened::Newer(version));
        }
        if rows < 2 {
            return Ok(Opened::Missing);
        }
        let identity = identity(statements).await?;
        Ok(Opened::Ours(Place { tables: self.tables.clone(), owner, identity }))
    }
}

async fn has_table<S: Statements>(statements: &mut S, table: &str) -> Result<bool, SqlError> {
    let count = statements.dialect().count_tables();
    let rows = statements.query(count, &[table.into()]).await?;
    Ok(rows.first().map(|row| row.integer(0)).transpose()? == Some(1))
}

struct Look(Opening);

impl Work for Look {
    type Answer = Opened;
    const ACCESS: Access = Access::Read;

    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Opened, SqlError> {
        self.0.look(statements).await
    }
}

struct Make(Opening);

impl Work for Make {
    type Answer = Opened;
    const ACCESS: Access = Access::Write;

    /// Whoever makes the same at the same time waits, or is undone and finds it made. MySQL commits in between, so
    /// that tables which are half made belong to somebody already.
    async fn run<S: Statements>(&self, statements: &mut S) -> Result<Opened, SqlError> {
        let Opening { tables, owner, .. } = &self.0;
        statements.define(&tables.make_pool()).await?;
        let columns = ["id", "version", "owner", "next_number"];
        let row = [1.into(), VERSION.into(), owner.as_str().into(), 0.into()];
        statements.insert_absent(&tables.pool, &columns, 1, &row).await?;
        match self.0.look(statements).await? {
            Opened::Missing => {}
            found => return Ok(found),
        }
        for definition in tables.make_rows() {
            statements.define(&definition).await?;
        }
        self.0.look(statements).await
    }
}
