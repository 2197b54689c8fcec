//! `traceparent` and `tracestate`, as the W3C's Trace Context has them.

use std::str::FromStr;

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `00-` and 32, 16 and 2 hex digits with dashes between.
const LENGTH: usize = 55;

/// Who follows a request; `None` if nobody does or what they say cannot be read.
pub(super) fn read(headers: &HeaderMap) -> Option<SpanContext> {
    let mut said = headers.get_all(TRACEPARENT).iter();
    let (text, None) = (said.next()?, said.next()) else { return None };
    let (trace, span, flags) = parse(text.as_bytes())?;
    // Only whoever is followed needs the rest.
    let state = if flags.is_sampled() { state(headers) } else { TraceState::NONE };
    Some(SpanContext::new(trace, span, flags, true, state))
}

fn state(headers: &HeaderMap) -> TraceState {
    let lists = headers.get_all(TRACESTATE).iter().filter_map(|list| list.to_str().ok());
    TraceState::from_str(&lists.collect::<Vec<_>>().join(",")).unwrap_or_default()
}

fn parse(text: &[u8]) -> Option<(TraceId, SpanId, TraceFlags)> {
    let known = text.get(..LENGTH)?;
    // A later version may say more behind what this one says.
    let whole = match &known[..2] {
        b"ff" => return None,
        b"00" => text.len() == LENGTH,
        _ => text.get(LENGTH).is_none_or(|next| *next == b'-'),
    };
    let dashes = [2, 35, 52].into_iter().all(|at| known[at] == b'-');
    if !whole || !dashes {
        return None;
    }
    hex(&known[..2])?;
    let trace = TraceId::from(hex(&known[3..35])?);
    let span = SpanId::from(u64::try_from(hex(&known[36..52])?).ok()?);
    let sampled = hex(&known[53..])? & 1 == 1;
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    (trace != TraceId::INVALID && span != SpanId::INVALID).then_some((trace, span, flags))
}

/// Lower case only: that is how it is written.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

/// How others name a span of ours.
pub(crate) fn traceparent(span: &SpanContext) -> Option<HeaderValue> {
    let flags = u8::from(span.is_sampled());
    HeaderValue::try_from(format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn said(values: &[&str]) -> Option<SpanContext> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        headers.append(TRACESTATE, "vendor=1".parse().unwrap());
        read(&headers)
    }

    #[test]
    fn what_is_read_is_written_the_same() {
        let span = said(&[SAID]).unwrap();
        assert!(span.is_remote() && span.is_sampled());
        assert_eq!(span.trace_state().get("vendor"), Some("1"));
        assert_eq!(traceparent(&span).unwrap(), SAID);
        let unfollowed = said(&[&SAID.replace("-01", "-00")]).unwrap();
        assert!(!unfollowed.is_sampled());
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = SAID.replace("00-4b", "01-4b");
        assert!(said(&[&later]).is_some());
        assert!(said(&[&format!("{later}-more")]).is_some());
        assert!(said(&[&format!("{later}more")]).is_none());
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        let wrong = [
            String::new(),
            "00".to_owned(),
            SAID.replace("00-4b", "ff-4b"),
            SAID.to_uppercase(),
            SAID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            SAID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            SAID.replace("-01", "-0g"),
            SAID.replace("-01", "_01"),
            format!("{SAID}-more"),
            format!(" {SAID}x"),
        ];
        for text in wrong {
            assert_eq!(said(&[&text]), None, "{text}");
        }
        assert_eq!(said(&[SAID, SAID]), None, "two are none");
        assert_eq!(said(&[]), None);
    }
}
