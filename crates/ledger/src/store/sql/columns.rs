//! The columns of a row, read one after another as what they mean.

use std::{fmt::Display, str::FromStr};

use keymill_id::Number;
use keymill_sql::{Row, SqlError, Value};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ClaimRow, Halt, Head, HoleKind, KeyspaceRow, LeaseRow, LedgerId, NodeName, NodeRow, Timestamp, TokenRow,
    Track, TrackRow, WitnessRow, WorkerId,
};

pub(super) type Read<T> = Result<T, SqlError>;

pub(super) struct Columns {
    row: Row,
    next: usize,
}

impl Columns {
    pub(super) fn of(row: Row) -> Self {
        Self { row, next: 0 }
    }

    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn text(&mut self) -> Read<String> {
        let at = self.step();
        self.row.text(at)
    }

    fn flag(&mut self) -> Read<bool> {
        let at = self.step();
        self.row.flag(at)
    }

    pub(super) fn count(&mut self) -> Read<u64> {
        let at = self.step();
        let value = self.row.integer(at)?;
        u64::try_from(value).map_err(|_| wrong(format!("{value} where a count should be")))
    }

    fn maybe_count(&mut self) -> Read<Option<u64>> {
        let at = self.step();
        let value = self.row.maybe_integer(at)?;
        value.map(u64::try_from).transpose().map_err(|_| wrong("a negative count".to_owned()))
    }

    fn number(&mut self) -> Read<Number> {
        let value = self.count()?;
        Number::new(value).ok_or_else(|| wrong(format!("{value} where a number should be")))
    }

    fn time(&mut self) -> Read<Timestamp> {
        self.count().map(Timestamp)
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self) -> Read<T> {
        self.text()?.parse().map_err(|error: T::Err| wrong(error.to_string()))
    }

    fn maybe_parsed<T: FromStr<Err: Display>>(&mut self) -> Read<Option<T>> {
        let at = self.step();
        let text = self.row.maybe_text(at)?;
        text.map(|text| text.parse()).transpose().map_err(|error: T::Err| wrong(error.to_string()))
    }

    fn json<T: DeserializeOwned>(&mut self) -> Read<T> {
        serde_json::from_str(&self.text()?).map_err(|error| wrong(error.to_string()))
    }

    /// A unit-like enum, stored as the word that serde spells it with.
    fn word<T: DeserializeOwned>(&mut self) -> Read<T> {
        serde_json::from_value(self.text()?.into()).map_err(|error| wrong(error.to_string()))
    }

    fn narrow<T: TryFrom<u64>>(value: u64) -> Read<T> {
        T::try_from(value).map_err(|_| wrong(format!("{value} is out of range")))
    }

    pub(super) fn head(&mut self) -> Read<Head> {
        let (id, created_at, incarnation) = (LedgerId(self.text()?), self.time()?, self.text()?);
        let halted = match (self.maybe_parsed()?, self.maybe_count()?) {
            (Some(reason), Some(since)) => Some(Halt { reason, since: Timestamp(since) }),
            _ => None,
        };
        Ok(Head {
            id,
            created_at,
            incarnation,
            halted,
            advances: self.count()?,
            region: self.maybe_count()?.map(Self::narrow).transpose()?,
            changes: self.count()?,
            root: self.maybe_parsed()?,
            keyspaces: self.count()?,
        })
    }

    pub(super) fn node(&mut self) -> Read<NodeRow> {
        Ok(NodeRow {
            name: self.parsed()?,
            epoch: self.count()?,
            beat: self.count()?,
            started_at: self.time()?,
            last_seen: self.time()?,
            stopped: self.flag()?,
            report: self.json()?,
        })
    }

    pub(super) fn track(&mut self) -> Read<(Track, TrackRow)> {
        let track = self.parsed()?;
        let row = TrackRow {
            cursor: self.number()?,
            revision: self.count()?,
            claims: self.count()?,
            reserved: self.count()?,
            issued: self.count()?,
            burned: self.count()?,
            holes: self.count()?,
        };
        Ok((track, row))
    }

    pub(super) fn hole(&mut self) -> Read<(Number, HoleKind)> {
        Ok((self.number()?, self.word()?))
    }

    pub(super) fn claim(&mut self) -> Read<ClaimRow> {
        let claim = ClaimRow {
            track: self.parsed()?,
            start: self.number()?,
            end: self.number()?,
            node: self.parsed()?,
            epoch: self.count()?,
            reserved_at: self.time()?,
            issued_up_to: self.number()?,
            last_issued_at: self.maybe_count()?.map(Timestamp),
            state: self.word()?,
            unissued: self.json()?,
        };
        // Sums are made of these.
        let ClaimRow { track, start, end, issued_up_to, .. } = &claim;
        if start >= end || issued_up_to < start || issued_up_to > end {
            return Err(wrong(format!(
                "the claim {start}..{end} of `{track}` is issued up to {issued_up_to}"
            )));
        }
        Ok(claim)
    }

    pub(super) fn keyspace(&mut self) -> Read<KeyspaceRow> {
        Ok(KeyspaceRow {
            name: self.parsed()?,
            definition: self.text()?,
            fingerprint: self.text()?,
            tuning: self.json()?,
            retired: self.flag()?,
            created_at: self.time()?,
        })
    }

    pub(super) fn lease(&mut self) -> Read<LeaseRow> {
        Ok(LeaseRow {
            keyspace: self.parsed()?,
            worker: WorkerId(Self::narrow(self.count()?)?),
            holder: self.text()?,
            term: self.count()?,
            expires_at: self.time()?,
            released: self.flag()?,
        })
    }

    pub(super) fn token(&mut self) -> Read<TokenRow> {
        Ok(TokenRow { id: self.text()?, body: self.json()? })
    }

    pub(super) fn witness(&mut self) -> Read<(NodeName, WitnessRow)> {
        Ok((self.parsed()?, self.json()?))
    }
}

fn wrong(detail: String) -> SqlError {
    SqlError::Unexpected(detail)
}

/// Integers go through here, so that none is stored that is not a number of ours.
pub(super) fn stored(value: u64) -> Read<Value> {
    match i64::try_from(value) {
        Ok(value) => Ok(value.into()),
        Err(_) => Err(wrong(format!("{value} does not fit a 64-bit column"))),
    }
}

pub(super) fn maybe_stored(value: Option<u64>) -> Read<Value> {
    value.map_or(Ok(Value::Integer(None)), stored)
}

pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_string(value).expect("rows are plain data").into()
}

pub(super) fn word(value: &impl Serialize) -> Value {
    let json = serde_json::to_value(value).expect("an enum of words");
    json.as_str().expect("an enum of words").into()
}
