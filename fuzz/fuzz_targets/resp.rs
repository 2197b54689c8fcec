//! Any bytes, cut anywhere, read as commands of the Redis protocol: the same commands come out as when they
//! arrive whole, nothing panics, and no bound is passed.
#![no_main]

use keymill_server::frame::{ARGUMENTS_MAX, Parser};
use libfuzzer_sys::fuzz_target;

const FRAME_BYTES: usize = 4096;

/// Every command up to the first that is malformed.
fn read<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (mut parser, mut input, mut commands) = (Parser::new(FRAME_BYTES), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match parser.frame(&input) {
                Ok(Some(length)) => {
                    let arguments = parser.arguments(&input);
                    assert!(arguments.len() <= ARGUMENTS_MAX);
                    commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    input.drain(..length);
                }
                Ok(None) => break,
                Err(_) => return (commands, true),
            }
        }
        assert!(input.len() <= FRAME_BYTES + piece.len(), "it waits for more than it would take");
    }
    (commands, false)
}

fuzz_target!(|case: (u8, &[u8])| {
    let (size, bytes) = case;
    let whole = read(std::iter::once(bytes));
    let cut = read(bytes.chunks(usize::from(size).max(1)));
    assert_eq!(whole, cut);
});
