// SPDX-License-Identifier: GPL-2.0

//! Any sequence of moves of the cursors, compared with the same on plain slices (V1-1, V1-19).
//!
//! The first byte is the number of moves, one byte each; they move over the rest.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::xdr::{pair, Reader, Writer};

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let Some((moves, input)) = rest.split_at_checked(usize::from(count)) else {
        return;
    };
    let mut reader = Reader::new(input);
    let mut output = vec![0xee; input.len()];
    let mut writer = Writer::new(&mut output);
    let mut at = 0;
    for &step in moves {
        let room = input.len() - at;
        let (len, done) = match step % 5 {
            0 => (4, copy_word(&mut reader, &mut writer)),
            1 => (12, copy_words::<3>(&mut reader, &mut writer)),
            2 => (28, copy_words::<7>(&mut reader, &mut writer)),
            3 => (16, copy_pairs(&mut reader, &mut writer)),
            _ => (
                usize::from(step) / 5 * 4,
                copy_taken(&mut reader, &mut writer, step),
            ),
        };
        assert_eq!(done, len <= room);
        if done {
            at += len;
        }
        assert_eq!(reader.rest(), &input[at..]);
        assert_eq!(writer.written(), at);
    }
    assert_eq!(output[..at], input[..at]);
    assert!(output[at..].iter().all(|&byte| byte == 0xee));
});

fn copy_word(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> bool {
    let word = reader.word();
    let written = writer.words([word.unwrap_or_default()]);
    assert_eq!(word.is_some(), written.is_ok());
    word.is_some()
}

fn copy_words<const W: usize>(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> bool {
    let words = reader.words::<W>();
    let written = writer.words(words.unwrap_or([0; W]));
    assert_eq!(words.is_some(), written.is_ok());
    words.is_some()
}

fn copy_pairs(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> bool {
    let words = reader.words();
    let [a, b, c, d] = words.unwrap_or_default();
    let written = writer.pairs([pair(a, b), pair(c, d)]);
    assert_eq!(words.is_some(), written.is_ok());
    words.is_some()
}

fn copy_taken(reader: &mut Reader<'_>, writer: &mut Writer<'_>, step: u8) -> bool {
    let Some(taken) = reader.take(usize::from(step) / 5 * 4) else {
        return false;
    };
    for word in taken.chunks_exact(4) {
        let word = u32::from_be_bytes(word.try_into().unwrap());
        assert!(writer.words([word]).is_ok());
    }
    true
}
