//! What time-ordered IDs are made of.

use std::collections::BTreeMap;

use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::error::{DefinitionError, invalid};
use crate::{
    layout::Layout,
    stated::{Scheme, Stated},
};

/// Time-ordered IDs of up to 63 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnowflakeDefinition {
    layout: Layout,
    region: u32,
}

impl SnowflakeDefinition {
    pub(super) fn resolve(stated: &Stated) -> Result<Self, DefinitionError> {
        let tick = stated.tick.as_deref().map(read_tick).transpose()?;
        let epoch = stated.epoch.as_deref().map(read_time).transpose()?;
        let layout = Layout::parse(stated.layout.as_deref().unwrap_or("default"), tick, epoch)
            .map_err(|error| invalid("layout", error.to_string()))?;
        if !layout.issues() {
            let bits = layout.bits();
            return Err(invalid(
                "layout",
                format!("`{layout}` has {bits} bits; IDs above 63 bits are only decoded"),
            ));
        }
        let region = stated.region.unwrap_or(0);
        if region >= layout.regions() {
            let most = layout.regions() - 1;
            return Err(invalid(
                "region",
                format!("{region} does not fit `{layout}`, whose highest region is {most}"),
            ));
        }
        Ok(Self { layout, region })
    }

    pub(super) fn fields(&self) -> BTreeMap<&'static str, Value> {
        let layout = self.layout.name().map_or_else(|| self.layout.to_string(), str::to_owned);
        BTreeMap::from([
            ("scheme", Scheme::Snowflake.as_str().into()),
            ("layout", layout.into()),
            ("tick", format!("{}ms", self.layout.tick_ms()).into()),
            ("epoch", write_time(self.layout.epoch_ms()).into()),
            ("region", self.region.into()),
        ])
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn region(&self) -> u32 {
        self.region
    }
}

/// `10ms`, `1s`.
fn read_tick(text: &str) -> Result<u32, DefinitionError> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let size = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let tick = size.and_then(|size| digits.parse::<u32>().ok()?.checked_mul(size));
    tick.ok_or_else(|| {
        invalid("tick", format!("`{}` is not a time such as 1ms, 10ms or 1s", text.escape_debug()))
    })
}

/// RFC 3339, to the millisecond.
fn read_time(text: &str) -> Result<u64, DefinitionError> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let millis = time.and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok());
    millis.ok_or_else(|| {
        invalid(
            "epoch",
            format!("`{}` is not a time such as 2026-01-01T00:00:00Z, from 1970 on", text.escape_debug()),
        )
    })
}

fn write_time(unix_ms: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000);
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.expect("a layout's epoch is before the year 9999")
}
