//! The one way a name is granted: by an insert that does nothing where there is a row.

use keymill_sql::{SqlError, Statements};

use crate::tables::{Grant, Mark, Tables};

pub(super) enum Granted {
    New,
    Taken,
    LookAlike { name: String },
}

/// With a skeleton, names that look the same are one name: the mark is looked for first and made last, and if
/// two make it at once the engine undoes one of them.
pub(super) async fn grant_guarded<S: Statements>(
    tables: &Tables,
    statements: &mut S,
    grant: Grant<'_>,
    skeleton: Option<&str>,
) -> Result<Granted, SqlError> {
    let Grant { keyspace, name, .. } = grant;
    let Some(skeleton) = skeleton else {
        return Ok(if tables.grant(statements, grant).await? { Granted::New } else { Granted::Taken });
    };
    let mark = Mark::Skeleton(skeleton);
    let marked = tables.marked(statements, keyspace, mark).await?;
    match marked {
        Some(other) if other != name => return Ok(Granted::LookAlike { name: other }),
        _ => {}
    }
    if !tables.grant(statements, grant).await? {
        return Ok(Granted::Taken);
    }
    if marked.is_none() {
        tables.mark(statements, keyspace, mark, name).await?;
    }
    Ok(Granted::New)
}
