//! What a node remembers outside the ledger, so that a ledger that forgot can be told.
//!
//! A journal of short lines, each with its CRC: who we are, the last write the ledger acknowledged, the
//! highest end we were granted on each track, the holes we made. A line is on the disk before the
//! numbers it speaks of are shown to anyone. Cost: one append and one sync per reserve, whatever the
//! number of keyspaces; the file is rewritten when most of it is history.
//!
//! A last line without its end is what a crash in the middle of an append leaves: it is dropped, since
//! nothing it spoke of was ever shown. Any other damage is refused.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use keymill_id::Number;
use keymill_ledger::{
    HoleKind, LedgerId, NodeName, Track, WitnessRow,
    ops::{Registration, Remembered},
};
use serde::{Deserialize, Serialize};

/// The journal is rewritten when it is this long and four times as long as what it says.
const REWRITE_ABOVE_BYTES: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Nothing was recorded; what it was about must be burned. Asking again later may help.
    #[error("the witness {} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The disk may have dropped what it took: never sync again, stop.
    #[error("the witness {} could not be synced: {source}; restart after checking the disk", path.display())]
    Sync { path: PathBuf, source: io::Error },
    #[error(
        "the witness {} is damaged in line {line}. Restore it from a copy; or, if you are sure that the ledger \
         was never restored or failed over since, move the file away and start again", path.display()
    )]
    Damaged { path: PathBuf, line: usize },
    #[error("the witness {} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the witness {} is of node `{kept}`, but this is node `{node}`", path.display())]
    OtherNode { path: PathBuf, kept: NodeName, node: NodeName },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Opened { ledger: LedgerId, node: NodeName },
    Beat { epoch: u64, beat: u64 },
    End { track: Track, end: Number, beat: u64 },
    Hole { track: Track, number: Number, kind: HoleKind },
}

/// What the lines add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub ledger: Option<LedgerId>,
    pub node: Option<NodeName>,
    pub epoch: u64,
    pub beat: u64,
    pub ends: BTreeMap<Track, Number>,
    pub holes: BTreeMap<(Track, Number), HoleKind>,
}

#[derive(Debug)]
pub struct Witness {
    path: PathBuf,
    file: File,
    length: u64,
    memory: Memory,
    /// A sync failed: the file is no longer to be trusted, and neither is another sync.
    failed: bool,
}

impl Memory {
    fn apply(&mut self, line: Line) {
        match line {
            Line::Opened { ledger, node } => {
                *self = Self { ledger: Some(ledger), node: Some(node), ..Self::default() };
            }
            Line::Beat { epoch, beat } => (self.epoch, self.beat) = (epoch, beat),
            Line::End { track, end, beat } => {
                self.ends.insert(track, end);
                self.beat = self.beat.max(beat);
            }
            Line::Hole { track, number, kind } => {
                self.holes.insert((track, number), kind);
            }
        }
    }

    fn lines(&self) -> Vec<Line> {
        let (Some(ledger), Some(node)) = (self.ledger.clone(), self.node.clone()) else { return Vec::new() };
        let mut lines =
            vec![Line::Opened { ledger, node }, Line::Beat { epoch: self.epoch, beat: self.beat }];
        let ends = self.ends.iter();
        lines.extend(ends.map(|(track, end)| Line::End { track: track.clone(), end: *end, beat: 0 }));
        let holes = self.holes.iter();
        lines.extend(holes.map(|((track, number), kind)| Line::Hole {
            track: track.clone(),
            number: *number,
            kind: *kind,
        }));
        lines
    }

    pub fn remembered(&self) -> Option<Remembered> {
        Some(Remembered {
            ledger: self.ledger.clone()?,
            epoch: self.epoch,
            beat: self.beat,
            ends: self.ends.iter().map(|(track, end)| (track.clone(), *end)).collect(),
        })
    }

    pub fn to_row(&self) -> WitnessRow {
        WitnessRow {
            epoch: self.epoch,
            beat: self.beat,
            ends: self.ends.iter().map(|(track, end)| (track.clone(), *end)).collect(),
            holes: self.holes.iter().map(|((track, number), kind)| (track.clone(), *number, *kind)).collect(),
        }
    }
}

impl Witness {
    /// Opens the witness of `node`, or begins one.
    pub fn open(path: &Path, node: &NodeName) -> Result<Self, WitnessError> {
        let read = |source| WitnessError::Read { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(read)?;
        let bytes = std::fs::read(path).map_err(read)?;
        let (memory, whole) =
            recall(&bytes).map_err(|line| WitnessError::Damaged { path: path.to_owned(), line })?;
        if let Some(kept) = &memory.node
            && kept != node
        {
            return Err(WitnessError::OtherNode {
                path: path.to_owned(),
                kept: kept.clone(),
                node: node.clone(),
            });
        }
        let mut witness = Self { path: path.to_owned(), file, length: whole as u64, memory, failed: false };
        if whole < bytes.len() {
            witness.file.set_len(witness.length).map_err(read)?;
            witness.sync()?;
        }
        sync_directory(path).map_err(read)?;
        witness.rewrite_if_long()?;
        Ok(witness)
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The highest end granted on `track`, or zero.
    pub fn end(&self, track: &Track) -> Number {
        self.memory.ends.get(track).copied().unwrap_or(Number::ZERO)
    }

    /// A new life begins on this ledger.
    pub fn registered(&mut self, node: &NodeName, registration: &Registration) -> Result<(), WitnessError> {
        let beat = Line::Beat { epoch: registration.epoch, beat: registration.beat };
        if self.memory.ledger.as_ref() == Some(&registration.ledger) {
            return self.append([beat]);
        }
        self.append([Line::Opened { ledger: registration.ledger.clone(), node: node.clone() }, beat])
    }

    /// The highest end granted on `track`. It is lowered only before a give-back is sent.
    pub fn granted(&mut self, track: &Track, end: Number, beat: u64) -> Result<(), WitnessError> {
        self.append([Line::End { track: track.clone(), end, beat }])
    }

    /// The ledger acknowledged a write that granted no numbers.
    pub fn acknowledged(&mut self, beat: u64) -> Result<(), WitnessError> {
        let epoch = self.memory.epoch;
        self.append([Line::Beat { epoch, beat }])
    }

    pub fn withheld(
        &mut self,
        track: &Track,
        numbers: impl Iterator<Item = Number>,
        kind: HoleKind,
        beat: u64,
    ) -> Result<(), WitnessError> {
        let epoch = self.memory.epoch;
        let holes = numbers.map(|number| Line::Hole { track: track.clone(), number, kind });
        self.append(holes.chain([Line::Beat { epoch, beat }]))
    }

    fn append(&mut self, lines: impl IntoIterator<Item = Line>) -> Result<(), WitnessError> {
        let lines: Vec<Line> = lines.into_iter().collect();
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| write_line(&mut bytes, line));
        self.write(&bytes)?;
        lines.into_iter().for_each(|line| self.memory.apply(line));
        self.rewrite_if_long()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WitnessError> {
        if self.failed {
            let source = io::Error::other("an earlier sync failed");
            return Err(WitnessError::Sync { path: self.path.clone(), source });
        }
        if let Err(source) = self.file.write_all(bytes) {
            // Half a line must not be glued to the next one.
            if self.file.set_len(self.length).is_err() {
                self.failed = true;
            }
            return Err(WitnessError::Write { path: self.path.clone(), source });
        }
        self.sync()?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), WitnessError> {
        self.file.sync_data().map_err(|source| {
            self.failed = true;
            WitnessError::Sync { path: self.path.clone(), source }
        })
    }

    fn rewrite_if_long(&mut self) -> Result<(), WitnessError> {
        if self.length < REWRITE_ABOVE_BYTES {
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.memory.lines().iter().for_each(|line| write_line(&mut bytes, line));
        if self.length < 4 * bytes.len() as u64 {
            return Ok(());
        }
        let failed = |source| WitnessError::Write { path: self.path.clone(), source };
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&beside, &self.path).map_err(failed)?;
        sync_directory(&self.path).map_err(failed)?;
        self.file = OpenOptions::new().append(true).open(&self.path).map_err(failed)?;
        self.length = bytes.len() as u64;
        Ok(())
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_line(bytes: &mut Vec<u8>, line: &Line) {
    let json = serde_json::to_string(line).expect("a line is plain data");
    bytes.extend_from_slice(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).as_bytes());
}

/// What the bytes say and how many of them are whole lines; else the number of the damaged line.
fn recall(bytes: &[u8]) -> Result<(Memory, usize), usize> {
    let mut memory = Memory::default();
    let mut whole = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.last() != Some(&b'\n') {
            break;
        }
        memory.apply(read_line(line).ok_or(index + 1)?);
        whole += line.len();
    }
    Ok((memory, whole))
}

fn read_line(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (crc, json) = text.split_once(' ')?;
    let exact = crc.len() == 8 && u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes());
    if exact { serde_json::from_str(json).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use keymill_id::KeyspaceName;

    use super::*;

    fn node() -> NodeName {
        NodeName::parse("a").unwrap()
    }

    fn track(name: &str) -> Track {
        Track::of(KeyspaceName::parse(name).unwrap())
    }

    fn number(value: u64) -> Number {
        Number::new(value).unwrap()
    }

    fn registration(epoch: u64, beat: u64) -> Registration {
        Registration { ledger: LedgerId("l".into()), epoch, beat, region: None, changes: 0 }
    }

    fn written(path: &Path) -> Memory {
        let mut witness = Witness::open(path, &node()).unwrap();
        witness.registered(&node(), &registration(1, 0)).unwrap();
        witness.granted(&track("links"), number(1000), 1).unwrap();
        witness.granted(&track("tickets"), number(50), 2).unwrap();
        witness.withheld(&track("links"), [number(7777)].into_iter(), HoleKind::Alias, 3).unwrap();
        witness.granted(&track("links"), number(2000), 4).unwrap();
        witness.memory().clone()
    }

    #[test]
    fn remembers_across_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        let memory = written(&path);
        assert_eq!(Witness::open(&path, &node()).unwrap().memory(), &memory);
        assert_eq!((memory.epoch, memory.beat), (1, 4));
        assert_eq!(memory.ends[&track("links")], number(2000));
    }

    #[test]
    fn refuses_another_nodes_witness() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        written(&path);
        let other = NodeName::parse("b").unwrap();
        assert!(matches!(Witness::open(&path, &other), Err(WitnessError::OtherNode { .. })));
    }

    /// A flip of the last line's end looks like a torn append, and drops that line alone: nothing it
    /// spoke of can have been shown if the append was torn, and the ledger itself still knows if not.
    #[test]
    fn every_bit_flip_is_refused_or_drops_at_most_the_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        let memory = written(&path);
        let good = std::fs::read(&path).unwrap();
        let without_last = {
            let cut = good[..good.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            recall(&good[..cut]).unwrap().0
        };
        let (mut refused, mut repaired) = (0, 0);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match recall(&bad) {
                Err(_) => refused += 1,
                Ok((found, _)) => {
                    // A flip in the hex digits' case changes no value.
                    assert!(found == memory || found == without_last, "bit {bit} made up a memory");
                    repaired += 1;
                }
            }
        }
        println!("{refused} flips refused, {repaired} repaired");
        assert!(refused > repaired * 10);
    }

    #[test]
    fn every_truncation_leaves_a_prefix_of_what_was_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        written(&path);
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            let mut witness = Witness::open(&path, &node()).unwrap();
            let memory = witness.memory().clone();
            assert!(memory.beat <= 4 && memory.ends.values().all(|end| *end <= number(2000)));
            // And it can be written on.
            witness.registered(&node(), &registration(2, 9)).unwrap();
            assert_eq!(Witness::open(&path, &node()).unwrap().memory().beat, 9);
        }
    }

    #[test]
    fn is_rewritten_when_most_of_it_is_history() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        let mut witness = Witness::open(&path, &node()).unwrap();
        witness.registered(&node(), &registration(1, 0)).unwrap();
        let line = Line::End { track: track("links"), end: number(1), beat: 1 };
        let mut bytes = Vec::new();
        write_line(&mut bytes, &line);
        let history = bytes.repeat(usize::try_from(REWRITE_ABOVE_BYTES).unwrap() / bytes.len() + 1);
        witness.write(&history).unwrap();
        witness.granted(&track("links"), number(5), 2).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 1000);
        witness.granted(&track("links"), number(6), 3).unwrap();
        assert_eq!(Witness::open(&path, &node()).unwrap().memory().ends[&track("links")], number(6));
    }
}
