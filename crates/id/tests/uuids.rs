//! Keys that no ledger counts: their form, and their order under any clock.

use keymill_id::{UlidMonotonic, Uuid7, readings, spell_ulid, spell_uuid, uuid4};
use proptest::prelude::*;

fn uuid_text(bytes: [u8; 16]) -> String {
    String::from_utf8(spell_uuid(bytes).to_vec()).unwrap()
}

fn ulid_text(bytes: [u8; 16]) -> String {
    String::from_utf8(spell_ulid(bytes).to_vec()).unwrap()
}

#[test]
fn a_random_uuid_keeps_all_but_version_and_variant() {
    // RFC 9562, A.3: version 4 of these random bits.
    let random = 0x9191_08f7_52d1_4320_9bac_f847_db41_48a8_u128;
    assert_eq!(uuid_text(uuid4(random.to_be_bytes())), "919108f7-52d1-4320-9bac-f847db4148a8");
    assert_eq!(uuid_text(uuid4([0xff; 16])), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(uuid_text(uuid4([0; 16])), "00000000-0000-4000-8000-000000000000");
}

#[test]
fn a_uuid7_is_time_counter_and_random_bits() {
    let mut uuids = Uuid7::default();
    let now = 0x017f_22e2_79b0;
    // 41 bits of a counter, of which the top one is cleared, then 32 bits.
    let random = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x02, 0x03, 0x04];
    assert_eq!(uuid_text(uuids.next(now, random)), "017f22e2-79b0-77ff-bfff-ffff01020304");
    assert_eq!(uuid_text(uuids.next(now, [0; 10])), "017f22e2-79b0-7800-8000-000000000000", "one up");
    assert_eq!(uuid_text(uuids.next(now - 3_600_000, random)), "017f22e2-79b0-7800-8000-000101020304");
    assert_eq!(uuid_text(uuids.next(now + 1, [0; 10])), "017f22e2-79b1-7000-8000-000000000000");
}

#[test]
fn a_ulid_is_time_and_random_bits_and_counts_within_a_millisecond() {
    let mut ulids = UlidMonotonic::default();
    // The specification's example, taken apart: its time, and its 80 random bits.
    let random = [0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b];
    let first = ulids.next(1_469_922_850_259, random).unwrap();
    assert_eq!(ulid_text(first), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    assert_eq!(ulid_text(ulids.next(1_469_922_850_259, [0; 10]).unwrap()), "01ARZ3NDEKTSV4RRFFQ69G5FAW");
    assert_eq!(
        ulid_text(ulids.next(0, [0; 10]).unwrap()),
        "01ARZ3NDEKTSV4RRFFQ69G5FAX",
        "the clock went back"
    );
    assert_eq!(ulid_text(ulids.next(1_469_922_850_260, [0; 10]).unwrap()), "01ARZ3NDEM0000000000000000");
}

#[test]
fn a_ulid_that_would_overflow_fails_until_the_next_millisecond() {
    let mut ulids = UlidMonotonic::default();
    assert!(ulids.next(5, [0xff; 10]).is_some());
    assert_eq!(ulids.next(5, [0; 10]), None);
    assert_eq!(ulids.next(4, [0; 10]), None);
    assert!(ulids.next(6, [0; 10]).is_some());
}

/// A clock that runs, stands, steps back and jumps ahead.
fn clock() -> impl Strategy<Value = Vec<(u64, [u8; 10])>> {
    let now = prop_oneof![4 => 1_000_000_u64..1_000_010, 1 => 0_u64..10_000_000_000];
    proptest::collection::vec((now, any::<[u8; 10]>()), 1..200)
}

proptest! {
    #[test]
    fn uuids_and_ulids_increase_whatever_the_clock_does(clock in clock()) {
        let (mut uuids, mut ulids) = (Uuid7::default(), UlidMonotonic::default());
        let (mut last_uuid, mut last_ulid) = (String::new(), String::new());
        let mut latest = 0;
        for (now, random) in clock {
            latest = latest.max(now);
            let uuid = uuid_text(uuids.next(now, random));
            prop_assert!(uuid > last_uuid);
            let reading = &readings(&uuid, None, 0)[0];
            prop_assert_eq!((reading.version, reading.time_ms), (Some(7), Some(latest)));
            last_uuid = uuid;
            if let Some(ulid) = ulids.next(now, random) {
                let ulid = ulid_text(ulid);
                prop_assert!(ulid > last_ulid);
                prop_assert_eq!(readings(&ulid, None, 0)[0].time_ms, Some(latest));
                last_ulid = ulid;
            }
        }
    }
}
