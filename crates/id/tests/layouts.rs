//! Layouts that must never change, public IDs at their published times, and what holds for every layout.

use keymill_id::{Kind, Layout, Reading, readings};
use proptest::prelude::*;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

fn layout(text: &str) -> Layout {
    Layout::parse(text, None, None).unwrap()
}

/// Milliseconds of an RFC 3339 time, by another implementation of the calendar than the presets' author's.
fn ms(time: &str) -> u64 {
    let time = OffsetDateTime::parse(time, &Rfc3339).unwrap();
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap()
}

const NOW: &str = "2026-11-15T00:00:00Z";

fn read(text: &str) -> Vec<Reading> {
    readings(text, None, ms(NOW))
}

/// Name, fields, tick, epoch, end, bits, and whether IDs are issued.
type Golden = (&'static str, &'static str, u32, &'static str, &'static str, u32, bool);

const PRESETS: &[Golden] = &[
    (
        "default",
        "time:41 worker:10 sequence:12",
        1,
        "2026-01-01T00:00:00Z",
        "2095-09-07T15:47:35.552Z",
        63,
        true,
    ),
    (
        "twitter",
        "time:41 worker:10 sequence:12",
        1,
        "2010-11-04T01:42:54.657Z",
        "2080-07-10T17:30:30.209Z",
        63,
        true,
    ),
    (
        "sonyflake",
        "time:39 sequence:8 worker:16",
        10,
        "2014-09-01T00:00:00Z",
        "2188-11-16T03:28:58.880Z",
        63,
        true,
    ),
    ("js53", "time:41 worker:4 sequence:8", 1, "2026-01-01T00:00:00Z", "2095-09-07T15:47:35.552Z", 53, true),
    (
        "regional",
        "time:41 region:4 worker:6 sequence:12",
        1,
        "2026-01-01T00:00:00Z",
        "2095-09-07T15:47:35.552Z",
        63,
        true,
    ),
    (
        "discord",
        "time:42 worker:10 sequence:12",
        1,
        "2015-01-01T00:00:00Z",
        "2154-05-15T07:35:11.104Z",
        64,
        false,
    ),
    (
        "instagram",
        "time:41 worker:13 sequence:10",
        1,
        "2011-08-24T21:07:01.721Z",
        "2081-04-30T12:54:37.273Z",
        64,
        false,
    ),
    (
        "wide",
        "time:41 worker:11 sequence:12",
        1,
        "2026-01-01T00:00:00Z",
        "2095-09-07T15:47:35.552Z",
        64,
        false,
    ),
];

#[test]
fn every_preset_is_what_it_always_was() {
    for (name, fields, tick_ms, epoch, end, bits, issues) in PRESETS {
        let layout = layout(name);
        assert_eq!(layout.to_string(), *fields, "{name}");
        assert_eq!(layout.tick_ms(), *tick_ms, "{name}");
        assert_eq!(layout.epoch_ms(), ms(epoch), "{name}");
        assert_eq!(layout.ends_at_ms(), ms(end), "{name}");
        assert_eq!(
            (layout.bits(), layout.issues(), layout.signed_safe()),
            (*bits, *issues, *issues),
            "{name}"
        );
        assert!(layout.sorts_by_time(), "{name}");
    }
    assert_eq!(Layout::preset_names().count(), PRESETS.len());
}

#[test]
fn capacities_are_those_the_bits_say() {
    let default = layout("default");
    assert_eq!((default.regions(), default.workers(), default.per_tick()), (1, 1024, 4096));
    assert!((default.lifetime_years() - 69.68).abs() < 0.01);
    let regional = layout("regional");
    assert_eq!((regional.regions(), regional.workers()), (16, 64));
    let sonyflake = layout("sonyflake");
    assert_eq!((sonyflake.workers(), sonyflake.per_tick(), sonyflake.sequence_step()), (65_536, 256, 65_536));
    assert!((sonyflake.lifetime_years() - 174.2).abs() < 0.1);
    let js53 = layout("js53");
    assert_eq!(js53.compose(js53.ticks() - 1, 0, 15, 255), (1 << 53) - 1);
}

#[test]
fn an_id_of_each_issuing_preset_is_composed_as_it_always_was() {
    let tick = |layout: &Layout| layout.tick_at(ms("2026-06-01T12:00:00Z")).unwrap();
    // (days since the epoch · 86 400 000 + half a day) in its place, then worker and sequence in theirs.
    let own = 151 * 86_400_000 + 43_200_000;
    let default = layout("default");
    assert_eq!(tick(&default), own);
    assert_eq!(default.compose(own, 0, 17, 5), own << 22 | 17 << 12 | 5);
    assert_eq!(default.compose(own, 0, 17, 5), 54_901_761_638_469_637);
    assert_eq!(layout("regional").compose(own, 3, 17, 5), own << 22 | 3 << 18 | 17 << 12 | 5);
    assert_eq!(layout("js53").compose(own, 0, 9, 5), own << 12 | 9 << 8 | 5);
    let sonyflake = layout("sonyflake");
    let ten = (ms("2026-06-01T12:00:00Z") - ms("2014-09-01T00:00:00Z")) / 10;
    assert_eq!(tick(&sonyflake), ten);
    assert_eq!(sonyflake.compose(ten, 0, 17, 5), ten << 24 | 5 << 16 | 17);
}

/// Each as a number, the layout it is from, its published time, worker and sequence.
const PUBLIC: &[(u64, &str, &str, u32, u64)] = &[
    // Wikipedia, "Snowflake ID": datacenter 11, worker 26.
    (1_541_815_603_606_036_480, "twitter", "2022-06-28T16:07:40.105Z", 11 << 5 | 26, 0),
    // Discord's API reference: worker 1, process 0, increment 7.
    (175_928_847_299_117_063, "discord", "2016-04-30T11:18:25.796Z", 1 << 5, 7),
    // Made by Instagram's published function, shard 5 (dba.stackexchange.com, question 193287).
    (1_671_372_309_237_077_023, "instagram", "2017-12-16T22:25:27.280Z", 5, 31),
];

#[test]
fn public_ids_decode_to_their_published_times() {
    for (id, name, time, worker, sequence) in PUBLIC {
        let stated = readings(&id.to_string(), Some(&layout(name)), ms(NOW));
        let expected = Reading {
            kind: Kind::Snowflake,
            layout: Some((*name).to_owned()),
            fields: stated[0].fields.clone(),
            version: None,
            time_ms: Some(ms(time)),
            region: None,
            worker: Some(*worker),
            sequence: Some(*sequence),
            signed_safe: Some(*name == "twitter"),
        };
        assert_eq!(stated, std::slice::from_ref(&expected));
        assert!(read(&id.to_string()).contains(&expected), "{name} is among the plausible ones");
    }
}

#[test]
fn instagrams_worked_example_is_composed_as_in_its_post() {
    // 1 387 263 000 ms after the epoch, user 31341 in shard 1341, the 5001st ID: 5001 % 1024 = 905.
    let instagram = layout("instagram");
    let id = instagram.compose(1_387_263_000, 0, 31_341 % 2000, 5001 % 1024);
    assert_eq!(id, 11_637_205_501_278_089);
    assert_eq!(instagram.decompose(id).unwrap().worker, 1341);
}

#[test]
fn the_likeliest_reading_comes_first() {
    let names = |id: u64| read(&id.to_string()).into_iter().map(|r| r.layout.unwrap()).collect::<Vec<_>>();
    assert_eq!(names(PUBLIC[0].0), ["twitter", "discord", "instagram"]);
    assert_eq!(names(PUBLIC[1].0), ["discord", "twitter", "instagram", "sonyflake", "wide"]);
    let tick = ms("2026-11-14T09:00:00Z") - ms("2026-01-01T00:00:00Z");
    assert_eq!(names(layout("default").compose(tick, 0, 700, 1))[..2], ["default", "regional"]);
    assert_eq!(names(layout("js53").compose(tick, 0, 3, 1))[0], "js53");
    // Sonyflake's numbers of today are above what the others have reached.
    let now = layout("sonyflake").tick_at(ms(NOW)).unwrap();
    assert!(names(layout("sonyflake").compose(now, 0, 258, 0)).contains(&"sonyflake".to_owned()));
}

#[test]
fn tomorrow_is_plausible_and_the_day_after_is_not() {
    let default = layout("default");
    let at = |time| default.compose(default.tick_at(ms(time)).unwrap(), 0, 0, 0).to_string();
    let by_default = |id: String| read(&id).iter().any(|r| r.layout.as_deref() == Some("default"));
    assert!(by_default(at("2026-11-16T00:00:00Z")));
    assert!(!by_default(at("2026-11-16T00:00:00.001Z")));
    let stated = readings(&at("2090-01-01T00:00:00Z"), Some(&default), ms(NOW));
    assert_eq!(stated[0].time_ms, Some(ms("2090-01-01T00:00:00Z")), "whoever names a layout knows");
}

#[test]
fn a_layout_without_a_name_is_shown_by_its_fields_and_a_region_by_its_number() {
    let own = layout("const:2=1 time:41 region:3 worker:5 sequence:12");
    let id = own.compose(1000, 6, 30, 9);
    let [reading] = &readings(&id.to_string(), Some(&own), ms(NOW))[..] else { panic!("one reading") };
    assert_eq!(reading.layout.as_deref(), Some("const:2=1 time:41 region:3 worker:5 sequence:12"));
    assert_eq!((reading.region, reading.worker, reading.sequence), (Some(6), Some(30), Some(9)));
    assert_eq!(readings("1", Some(&own), ms(NOW)), [], "its constant is missing");
}

#[test]
fn uuids_of_every_version_show_version_and_time() {
    // The test vectors of RFC 9562, appendices A and B: all that have a time have the same one.
    let time = Some(ms("2022-02-22T19:22:22Z"));
    let vectors = [
        ("C232AB00-9414-11EC-B3C8-9F6BDECED846", Some(1), time),
        ("5df41881-3aed-3515-88a7-2f4a814cf09e", Some(3), None),
        ("919108f7-52d1-4320-9bac-f847db4148a8", Some(4), None),
        ("2ed6657d-e927-568b-95e1-2665a8aea6a2", Some(5), None),
        ("1EC9414C-232A-6B00-B3C8-9F6BDECED846", Some(6), time),
        ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", Some(7), time),
        ("2489E9AD-2EE2-8E00-8EC9-32D5F69181C0", Some(8), None),
        ("00000000-0000-0000-0000-000000000000", None, None),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", None, None),
    ];
    for (text, version, time_ms) in vectors {
        let simple = text.replace('-', "").to_lowercase();
        for text in [text, &text.to_lowercase(), &simple, &format!("urn:uuid:{text}")] {
            let [reading] = &read(text)[..] else { panic!("{text} has one reading") };
            assert_eq!((reading.kind, reading.version, reading.time_ms), (Kind::Uuid, version, time_ms));
        }
    }
    // The first tick of the Gregorian calendar is before any Unix time.
    assert_eq!(read("00000000-0000-1000-8000-000000000000")[0].time_ms, None);
}

#[test]
fn a_ulid_shows_its_time() {
    for text in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"] {
        let [reading] = &read(text)[..] else { panic!("one reading") };
        assert_eq!(reading.kind, Kind::Ulid);
        assert_eq!(reading.time_ms, Some(ms("2016-07-30T23:54:10.259Z")));
    }
    assert_eq!(read("00000000000000000000000001")[0].kind, Kind::Ulid);
    assert_eq!(read("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")[0].time_ms, None, "RFC 3339 cannot say the year 10889");
    assert_eq!(read("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), [], "more than 128 bits");
}

#[test]
fn what_is_no_id_has_no_reading() {
    for text in ["", "+5", "-5", "007", "18446744073709551616", "aZ3k9Qp", "01ARZ3NDEKTSV4RRFFQ69G5FAé", "é"]
    {
        assert_eq!(read(text), [], "{text}");
    }
}

#[test]
fn a_range_is_exactly_the_ticks_of_its_time() {
    let default = layout("default");
    let from = ms("2026-06-01T12:00:00Z");
    let tick = default.tick_at(from).unwrap();
    let (first, last) = default.range(from, from + 1).unwrap();
    assert_eq!((first, last), (tick << 22, ((tick + 1) << 22) - 1));
    assert_eq!(default.range(from, from), None);
    assert_eq!(default.range(from + 1, from), None);
    assert_eq!(default.range(0, default.epoch_ms()), None);
    assert_eq!(default.range(default.ends_at_ms(), u64::MAX), None);
    assert_eq!(default.range(0, u64::MAX), Some((0, i64::MAX as u64)));
    // One moment inside a tick of ten milliseconds is that tick.
    let sonyflake = layout("sonyflake");
    let (first, last) = sonyflake.range(from + 3, from + 4).unwrap();
    let tick = sonyflake.tick_at(from).unwrap();
    assert_eq!((first, last), (tick << 24, ((tick + 1) << 24) - 1));
}

/// Any valid layout: a time, some of the other fields in any place that is allowed, a tick and an epoch.
fn layouts() -> impl Strategy<Value = Layout> {
    let fields = (
        20_u32..=41,
        proptest::option::of(1_u32..=4),
        proptest::option::of(1_u32..=6),
        proptest::option::of(1_u32..=8),
        proptest::option::of((1_u32..=5).prop_flat_map(|bits| (Just(bits), 0..1_u64 << bits))),
    );
    (fields, any::<prop::sample::Index>(), any::<u64>(), 1_u32..=1000, 0_u64..2_000_000_000_000).prop_map(
        |((time, region, worker, sequence, constant), place, shuffle, tick_ms, epoch_ms)| {
            let mut fields = Vec::new();
            fields.extend(region.map(|bits| format!("region:{bits}")));
            fields.extend(worker.map(|bits| format!("worker:{bits}")));
            fields.extend(constant.map(|(bits, value)| format!("const:{bits}={value}")));
            if shuffle % 2 == 0 {
                fields.reverse();
            }
            let at = place.index(fields.len() + 1);
            fields.insert(at, format!("time:{time}"));
            if let Some(bits) = sequence {
                let below = at + 1 + usize::try_from(shuffle / 2).unwrap() % (fields.len() - at);
                fields.insert(below, format!("sequence:{bits}"));
            }
            Layout::parse(&fields.join(" "), Some(tick_ms), Some(epoch_ms)).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn parts_and_ids_are_each_others_inverse(
        layout in layouts(),
        [tick, region, worker, sequence] in any::<[u64; 4]>(),
        id in any::<u64>(),
    ) {
        let small = |value: u64, count: u32| u32::try_from(value % u64::from(count)).unwrap();
        let (tick, sequence) = (tick % layout.ticks(), sequence % layout.per_tick());
        let (region, worker) = (small(region, layout.regions()), small(worker, layout.workers()));
        let composed = layout.compose(tick, region, worker, sequence);
        let parts = layout.decompose(composed).unwrap();
        prop_assert_eq!((parts.tick, parts.region, parts.worker, parts.sequence), (tick, region, worker, sequence));
        for id in [id, id >> (64 - layout.bits())] {
            if let Some(parts) = layout.decompose(id) {
                prop_assert_eq!(layout.compose(parts.tick, parts.region, parts.worker, parts.sequence), id);
            }
        }
        prop_assert_eq!(Layout::parse(&layout.to_string(), Some(layout.tick_ms()), Some(layout.epoch_ms())), Ok(layout));
    }

    #[test]
    fn every_id_of_a_time_is_in_its_range(
        layout in layouts(),
        [at, before, after] in any::<[u64; 3]>(),
        [region, worker, sequence] in any::<[u64; 3]>(),
    ) {
        let small = |value: u64, count: u32| u32::try_from(value % u64::from(count)).unwrap();
        let life = layout.ends_at_ms() - layout.epoch_ms();
        let at = layout.epoch_ms() + at % life;
        let (from, to) = (at.saturating_sub(before % life), at + 1 + after % life);
        let (region, worker) = (small(region, layout.regions()), small(worker, layout.workers()));
        let id = layout.compose(layout.tick_at(at).unwrap(), region, worker, sequence % layout.per_tick());
        let (first, last) = layout.range(from, to).unwrap();
        prop_assert!((first..=last).contains(&id));
        let first = layout.decompose(first).unwrap();
        prop_assert!(layout.unix_ms_of(first.tick + 1) > from, "no tick that is over before it");
        let last = layout.decompose(last).unwrap();
        prop_assert!(layout.unix_ms_of(last.tick) < to, "and none that begins after it");
    }
}
