//! A batch as one etcd transaction, within what a cluster accepts by default.
//!
//! etcd counts the operations of a transaction (`--max-txn-ops`, 128): comparisons and writes apart, and a
//! transaction inside another has what is left. So many writes go into transactions of their own inside the
//! one that compares, and many comparisons of one kind become one over all rows of that kind.

use std::collections::BTreeMap;

use super::{
    proto::{
        Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest,
        compare::{CompareResult, CompareTarget, TargetUnion},
        request_op::Request,
    },
    refused,
};
use crate::{LedgerError, store::keyed::Batch};

/// What a cluster accepts unless it was told otherwise.
const OPERATIONS_MAX: usize = 128;
/// Guards of one kind that are compared one by one.
const EACH_MAX: usize = 24;

pub(super) fn request(prefix: &str, revision: i64, batch: &Batch) -> Result<TxnRequest, LedgerError> {
    let compare = comparisons(prefix, revision, batch)?;
    let writes: Vec<RequestOp> = batch.writes.iter().map(|(key, value)| write(prefix, key, value)).collect();
    let success = nested(writes, compare.len())?;
    Ok(TxnRequest { compare, success, failure: Vec::new() })
}

fn comparisons(prefix: &str, revision: i64, batch: &Batch) -> Result<Vec<Compare>, LedgerError> {
    let kind = |key: &str| key.split_once('/').map_or_else(|| key.to_owned(), |(kind, _)| kind.to_owned());
    let mut kinds: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for guard in &batch.guards {
        kinds.entry(kind(&guard.0)).or_default().push(guard);
    }
    let mut compare = Vec::new();
    for (kind, guards) in kinds {
        if guards.len() > EACH_MAX {
            compare.push(unchanged(prefix, &kind, revision));
        } else {
            for (key, version) in guards {
                compare.push(same(prefix, key, *version)?);
            }
        }
    }
    Ok(compare)
}

/// The row is the one that was read; an absent row has revision 0.
fn same(prefix: &str, key: &str, version: Option<u64>) -> Result<Compare, LedgerError> {
    let found = i64::try_from(version.unwrap_or(0));
    let found = found.map_err(|_| refused(format!("`{key}` has a revision that is none")))?;
    Ok(Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: format!("{prefix}{key}").into_bytes(),
        target_union: Some(TargetUnion::ModRevision(found)),
        range_end: Vec::new(),
    })
}

/// No row of the kind was written after `revision`. Guarded rows are never removed, so that is all.
fn unchanged(prefix: &str, kind: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Less.into(),
        target: CompareTarget::Mod.into(),
        key: format!("{prefix}{kind}/").into_bytes(),
        target_union: Some(TargetUnion::ModRevision(revision + 1)),
        range_end: format!("{prefix}{kind}0").into_bytes(),
    }
}

fn write(prefix: &str, key: &str, value: &Option<String>) -> RequestOp {
    let key = format!("{prefix}{key}").into_bytes();
    let request = match value {
        Some(value) => Request::RequestPut(PutRequest { key, value: value.clone().into_bytes() }),
        None => Request::RequestDeleteRange(DeleteRangeRequest { key }),
    };
    RequestOp { request: Some(request) }
}

fn nested(writes: Vec<RequestOp>, comparisons: usize) -> Result<Vec<RequestOp>, LedgerError> {
    if writes.len() <= OPERATIONS_MAX {
        return Ok(writes);
    }
    let room = |parts: usize| OPERATIONS_MAX.saturating_sub(parts.max(comparisons));
    let Some(parts) = (1..OPERATIONS_MAX).find(|parts| parts * room(*parts) >= writes.len()) else {
        return Err(refused(format!("{} rows at once are more than one transaction holds", writes.len())));
    };
    let inner = |part: &[RequestOp]| {
        let txn = TxnRequest { success: part.to_vec(), ..TxnRequest::default() };
        RequestOp { request: Some(Request::RequestTxn(txn)) }
    };
    Ok(writes.chunks(room(parts)).map(inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(guards: usize, writes: usize) -> Batch {
        Batch {
            guards: (0..guards).map(|n| (format!("track/{n}"), Some(7))).collect(),
            writes: (0..writes).map(|n| (format!("claim/{n}"), Some(String::new()))).collect(),
        }
    }

    /// As etcd counts: what a transaction uses up is not left for those inside it.
    fn fits(txn: &TxnRequest, room: usize) -> bool {
        let used = txn.compare.len().max(txn.success.len());
        let inner = |op: &RequestOp| match &op.request {
            Some(Request::RequestTxn(txn)) => fits(txn, room - used),
            _ => true,
        };
        used <= room && txn.success.iter().all(inner)
    }

    fn puts(txn: &TxnRequest) -> usize {
        let inner = |op: &RequestOp| match &op.request {
            Some(Request::RequestTxn(txn)) => puts(txn),
            _ => 1,
        };
        txn.success.iter().map(inner).sum()
    }

    #[test]
    fn what_is_too_much_at_once_is_packed() {
        for (guards, writes) in [(3, 3), (24, 128), (25, 129), (1_000, 1_000), (24, 3_000)] {
            let txn = request("p/", 9, &batch(guards, writes)).unwrap();
            assert!(fits(&txn, OPERATIONS_MAX), "{guards} guards, {writes} writes");
            assert_eq!(puts(&txn), writes);
        }
        request("p/", 9, &batch(1, 100_000)).unwrap_err();
    }
}
