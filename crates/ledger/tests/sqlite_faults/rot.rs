//! Rotten files: whatever is on the disk, no number is granted twice.
//!
//! A small ledger is closed, damaged and opened again, thousands of times. Every outcome is counted: a
//! refusal is fine, a block above everything granted is fine, anything else fails the test.

use std::{collections::BTreeMap, fs};

use keymill_ledger::{
    HoleKind, LedgerError,
    conformance::{Dice, TestNode, number},
};

use crate::folder::Folder;

/// Files with one bit turned over. The nightly figure is 10 000; this many take a few seconds.
const FLIPS: u64 = 2_500;
/// Files cut short.
const CUTS: usize = 150;

const LINKS_END: u64 = 1_000;
const TICKS_END: u64 = 7_777;
const HOLES: [u64; 3] = [1_500, 1_501, 1_999];

/// A ledger in which every table has rows, closed: the whole of it in one file. And a node that
/// remembers what it was granted.
async fn sound() -> (Vec<u8>, TestNode) {
    let folder = Folder::new();
    let mut a = folder.start("a").await;
    let mut b = TestNode::start(a.ledger.clone(), "b").await;
    a.withhold("links", &HOLES, HoleKind::Alias).await.unwrap();
    for step in 0..5 {
        a.create(&format!("more-{step}")).await.unwrap();
        a.lease("a").await.ok();
        b.reserve("links", 100).await.unwrap();
        a.reserve("links", 100).await.unwrap();
    }
    a.reserve_between("events/3", TICKS_END - 10, 10, 1 << 41).await.unwrap();
    assert_eq!(a.row("links").await.cursor, number(LINKS_END));
    b.stop(Vec::new()).await.unwrap();
    drop(b);
    Folder::close(&mut a);
    (fs::read(folder.path()).unwrap(), a)
}

/// Opens what is left of the ledger and takes numbers from it, as `node` after a restart.
async fn serve(bytes: &[u8], node: &TestNode) -> Result<(), LedgerError> {
    let folder = Folder::fleeting("second");
    fs::write(folder.path(), bytes).unwrap();
    let mut node = TestNode { ledger: folder.try_open()?.0, ..node.clone() };
    node.restart().await?;
    granted_above(&mut node).await
}

/// The same as a node that remembers nothing: only the file's own checksums can tell.
async fn serve_a_stranger(bytes: &[u8]) -> Result<(), LedgerError> {
    let folder = Folder::fleeting("second");
    fs::write(folder.path(), bytes).unwrap();
    let mut node = TestNode::try_start(folder.try_open()?.0, "stranger").await?;
    granted_above(&mut node).await
}

async fn granted_above(node: &mut TestNode) -> Result<(), LedgerError> {
    let links = node.reserve("links", LINKS_END).await?;
    assert!(links.block.start() >= number(LINKS_END), "{} was granted before", links.block);
    let holes = HOLES.map(number).into_iter().filter(|hole| links.block.contains(*hole));
    assert!(holes.clone().eq(links.holes.iter().copied()), "a name somebody has would be issued");
    let ticks = node.reserve("events/3", 10).await?;
    assert!(ticks.block.start() >= number(TICKS_END), "{} was granted before", ticks.block);
    let again = node.reserve("links", 10).await?;
    assert!(again.block.start() >= links.block.end());
    Ok(())
}

#[derive(Debug, Default)]
struct Outcomes(BTreeMap<String, u64>);

impl Outcomes {
    fn count(&mut self, outcome: Result<(), LedgerError>) {
        let name = match outcome {
            Ok(()) => "served above".to_owned(),
            Err(LedgerError::Broken { detail, .. }) => panic!("an assertion failed in the writer: {detail}"),
            Err(error) => {
                let debug = format!("{error:?}");
                debug.split([' ', '{']).next().unwrap_or_default().to_owned()
            }
        };
        *self.0.entry(name).or_default() += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turned_bit_never_repeats_a_number() {
    let (sound, node) = sound().await;
    // Most of a file is empty space, where rot does no harm.
    let written: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0).collect();
    let mut dice = Dice(2);
    let (mut remembering, mut believing) = (Outcomes::default(), Outcomes::default());
    for flip in 0..FLIPS {
        let mut bytes = sound.clone();
        let (at, bit) = (usize::try_from(dice.roll()).unwrap(), dice.below(8));
        let at = if flip % 4 == 3 { at % bytes.len() } else { written[at % written.len()] };
        bytes[at] ^= 1 << bit;
        remembering.count(serve(&bytes, &node).await);
        if flip % 3 == 0 {
            believing.count(serve_a_stranger(&bytes).await);
        }
    }
    println!("{FLIPS} flips of {} bytes: {remembering:?}; without a witness: {believing:?}", sound.len());
    assert!(remembering.0.contains_key("Corrupt") && remembering.0.contains_key("served above"));
}

/// No checksum of ours covers a page's own bookkeeping. One bit of it hid a track behind another one's
/// row, another let the first write land on a neighbour, which then counted from zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turned_bit_in_any_page_header_never_repeats_a_number() {
    const PAGE: usize = 4096;
    const HEADER: usize = 28;
    let (sound, node) = sound().await;
    let mut outcomes = Outcomes::default();
    for at in (0..sound.len()).filter(|at| at % PAGE < HEADER) {
        for bit in 0..8 {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            outcomes.count(serve(&bytes, &node).await);
            outcomes.count(serve_a_stranger(&bytes).await);
        }
    }
    println!("page headers: {outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_cut_short_never_repeats_a_number() {
    let (sound, node) = sound().await;
    let mut outcomes = Outcomes::default();
    for cut in (0..sound.len()).step_by(sound.len() / CUTS) {
        outcomes.count(serve(&sound[..cut], &node).await);
    }
    println!("cuts of {} bytes: {outcomes:?}", sound.len());
    assert!(!outcomes.0.contains_key("served above"), "{outcomes:?}");
    serve(&sound, &node).await.expect("and the whole file serves");
}
