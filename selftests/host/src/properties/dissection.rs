// SPDX-License-Identifier: GPL-2.0

//! Messages of version 2 for the dissector in `tools`, and what the decoder finds in them.
//!
//! With a directory in `DISSECTION` the test below leaves there `messages.pcap`, of link type
//! USER0, and `expected`, a line for each message with the columns of `dissector.py`, which
//! compares the two.

use std::{env, fmt::Write, fs, path::Path};

use super::v2_messages::VECTORS;
use crate::module::proto::{
    neutral::{Direction, Rejection, Value},
    prefix::Prefix,
    v2::{
        characteristics::{Entry, Subset},
        header::{Body, DecodeError, Header},
        operations::{Code, Operation},
    },
    xdr::Reader,
    ChunkLists, Segment,
};

/// The columns behind the note and the prefix, in their order.
const COLUMNS: [&str; 22] = [
    "direction",
    "read.position",
    "write.segments",
    "reply.segments",
    "handle",
    "length",
    "offset",
    "payload",
    "err",
    "err.low",
    "err.high",
    "opttype",
    "xchar",
    "rbsiz",
    "reqreminv",
    "brs",
    "opaque",
    "nochg",
    "done",
    "rej",
    "pend",
    "pendclr",
];

/// The values in each column, joined by commas as tshark does.
#[derive(Default)]
struct Row(Vec<(&'static str, String)>);

impl Row {
    fn put(&mut self, column: &'static str, value: impl ToString) {
        assert!(COLUMNS.contains(&column));
        self.0.push((column, value.to_string()));
    }

    fn segment(&mut self, segment: &Segment) {
        self.put("handle", format!("{:#010x}", segment.handle));
        self.put("length", segment.length);
        self.put("offset", format!("{:#018x}", segment.offset));
    }

    fn direction(&mut self, direction: Direction) {
        self.put("direction", u32::from(direction == Direction::Reply));
    }

    fn chunks(&mut self, chunks: &ChunkLists<'_>) {
        for read in chunks.read.segments() {
            self.put("read.position", read.position);
            self.segment(&read.segment);
        }
        for chunk in chunks.write.chunks() {
            self.put("write.segments", chunk.len());
            chunk.segments().for_each(|segment| self.segment(&segment));
        }
        if let Some(chunk) = chunks.reply {
            self.put("reply.segments", chunk.len());
            chunk.segments().for_each(|segment| self.segment(&segment));
        }
    }

    fn bytes(&mut self, column: &'static str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.put(
                column,
                bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            );
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        self.put("xchar", entry.id);
        match entry.value {
            Value::Word(size) => self.put("rbsiz", size),
            Value::Flag(flag) => self.put("reqreminv", u32::from(flag)),
            Value::Choice(level) => self.put("brs", level),
            Value::Opaque(data) => self.bytes("opaque", data),
        }
    }

    fn subset(&mut self, column: &'static str, subset: &Subset<'_>) {
        subset
            .words()
            .for_each(|word| self.put(column, format!("{word:#010x}")));
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::Initxch { start, nochg } => {
                start.entries().for_each(|entry| self.entry(&entry));
                self.subset("nochg", nochg);
            }
            Operation::Reqxch { want } => want.entries().for_each(|entry| self.entry(&entry)),
            Operation::Respxch(response) => {
                self.subset("done", &response.done);
                self.subset("rej", &response.rej);
                self.subset("pend", &response.pend);
            }
            Operation::Updxch { now, pendclr } => {
                self.entry(now);
                self.put("pendclr", u32::from(*pendclr));
            }
        }
    }

    /// Adds the body; returns a note if it is not of this text.
    fn body(&mut self, body: &Body<'_>) -> &'static str {
        match *body {
            Body::Msg {
                direction,
                chunks,
                payload,
            } => {
                self.direction(direction);
                self.chunks(&chunks);
                self.bytes("payload", payload);
            }
            Body::NoMsg { direction, chunks } => {
                self.direction(direction);
                self.chunks(&chunks);
            }
            Body::Error(rejection) => match rejection {
                Rejection::Version { low, high } => {
                    self.put("err", 1);
                    self.put("err.low", low);
                    self.put("err.high", high);
                }
                Rejection::InvalidOption => self.put("err", 3),
                _ => self.put("err", 2),
            },
            Body::Optional {
                direction,
                operation,
                info,
                ..
            } => {
                self.direction(direction);
                self.put("opttype", operation);
                let Some(code) = Code::from_word(operation) else {
                    return "unknown operation";
                };
                match Operation::decode(code, info) {
                    Ok(operation) => self.operation(&operation),
                    Err(_) => return "malformed",
                }
            }
        }
        ""
    }

    /// The line of a message: note, prefix, columns. Where the message is not taken apart to its
    /// end, the columns are empty.
    fn line(message: &[u8]) -> String {
        let mut row = Self::default();
        let note = match Header::decode(message) {
            Ok(header) => row.body(&header.body),
            Err(DecodeError::Version { .. }) => "another version",
            Err(DecodeError::Type { .. }) => "unknown type",
            Err(DecodeError::UnknownError { .. }) => "unknown error",
            Err(_) => "malformed",
        };
        let mut line = note.to_string();
        if let Some(prefix) = Prefix::decode(&mut Reader::new(message)) {
            let Prefix {
                xid,
                version,
                credits,
                code,
            } = prefix;
            write!(line, "\t{xid:#010x}\t{version}\t{credits}\t{code}").unwrap();
        }
        if note.is_empty() {
            for column in COLUMNS {
                let values = row.0.iter().filter(|(name, _)| *name == column);
                let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
                write!(line, "\t{}", values.join(",")).unwrap();
            }
        }
        line
    }
}

/// Every vector; every cut of each; each with every word replaced.
fn messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for vector in VECTORS {
        let bytes: Vec<u8> = vector.iter().flat_map(|word| word.to_be_bytes()).collect();
        all.push(bytes.clone());
        all.extend((1..bytes.len()).map(|len| bytes[..len].to_vec()));
        for at in (0..bytes.len()).step_by(4) {
            for word in [
                0_u32,
                1,
                2,
                3,
                4,
                5,
                8,
                99,
                0x2000_0000,
                0xffff_ff00,
                u32::MAX,
            ] {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
                all.push(bytes);
            }
        }
    }
    all
}

fn leave(directory: &Path, messages: &[Vec<u8>]) {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0xffff, 147] {
        pcap.extend(word.to_le_bytes());
    }
    let mut expected = format!("note\txid\tvers\tcredit\tproc\t{}\n", COLUMNS.join("\t"));
    for message in messages {
        let len = u32::try_from(message.len()).unwrap();
        pcap.extend([0, 0, len, len].iter().flat_map(|word| word.to_le_bytes()));
        pcap.extend(message);
        writeln!(expected, "{}", Row::line(message)).unwrap();
    }
    fs::write(directory.join("messages.pcap"), pcap).unwrap();
    fs::write(directory.join("expected"), expected).unwrap();
}

// TV-V2-1..TV-V2-7, TV-XC-1..TV-XC-12: no vector has a note, and each kind of note occurs.
#[test]
fn notes() {
    let messages = messages();
    let notes: Vec<String> = messages
        .iter()
        .map(|message| Row::line(message).split('\t').next().unwrap().to_string())
        .collect();
    for vector in VECTORS {
        let bytes: Vec<u8> = vector.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(Row::line(&bytes).starts_with('\t'));
    }
    for note in [
        "malformed",
        "another version",
        "unknown type",
        "unknown error",
    ] {
        assert!(notes.iter().any(|found| found == note), "{note}");
    }
    assert!(notes.iter().any(|found| found == "unknown operation"));
    if let Some(directory) = env::var_os("DISSECTION") {
        leave(Path::new(&directory), &messages);
    }
}
