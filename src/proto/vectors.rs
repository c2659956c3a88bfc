// SPDX-License-Identifier: GPL-2.0

//! Messages for the tests: vectors word by word, and a buffer for a test to spoil them in.
//!
//! The vectors come from another encoder than ours and were read back by a decoder independent of
//! both. The list of requirements has the same names.

use super::{
    chunk::Segment,
    plan::Shape,
    xdr::Writer, //
};

/// A message that a test may spoil. An impossible change leaves it empty, which no test expects.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    bytes: [u8; 208],
    len: usize,
}

impl Message {
    /// The message that consists of `words`.
    pub(crate) fn new<'a>(words: impl IntoIterator<Item = &'a u32>) -> Self {
        let mut bytes = [0; 208];
        let mut writer = Writer::new(&mut bytes);
        let whole = words.into_iter().all(|word| writer.words([*word]).is_ok());
        let len = if whole { writer.written() } else { 0 };
        Self { bytes, len }
    }

    /// The message that consists of `words` except index `from` up to `to`.
    pub(crate) fn without(words: &[u32], from: usize, to: usize) -> Self {
        let kept = words.iter().enumerate();
        Self::new(kept.filter_map(|(at, word)| (at < from || at >= to).then_some(word)))
    }

    /// Replaces the word at `offset`.
    pub(crate) fn put(mut self, offset: usize, word: u32) -> Self {
        let place = self
            .bytes
            .get_mut(..self.len)
            .and_then(|bytes| bytes.get_mut(offset..));
        if place.is_none_or(|place| Writer::new(place).words([word]).is_err()) {
            self.len = 0;
        }
        self
    }

    /// Keeps the first `len` bytes.
    pub(crate) fn cut(mut self, len: usize) -> Self {
        self.len = if len <= self.len { len } else { 0 };
        self
    }

    /// The word at `offset`.
    pub(crate) fn word(&self, offset: usize) -> u32 {
        let word = self.bytes().get(offset..).and_then(<[u8]>::first_chunk);
        word.copied().map_or(0, u32::from_be_bytes)
    }

    /// The bytes of the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A segment, in one line.
pub(crate) const fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment {
        handle,
        length,
        offset,
    }
}

/// The shape of a call, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallShape {
    pub(crate) send_len: u32,
    pub(crate) send_pages: u32,
    pub(crate) send_kvecs: u32,
    pub(crate) send_eligible: bool,
    pub(crate) recv_max: u32,
    pub(crate) recv_pages: u32,
    pub(crate) recv_kvecs: u32,
    pub(crate) recv_eligible: bool,
    pub(crate) opaque: bool,
}

impl Shape for CallShape {
    fn send_len(&self) -> u32 {
        self.send_len
    }

    fn send_pages(&self) -> u32 {
        self.send_pages
    }

    fn send_kvecs(&self) -> u32 {
        self.send_kvecs
    }

    fn send_eligible(&self) -> bool {
        self.send_eligible
    }

    fn recv_max(&self) -> u32 {
        self.recv_max
    }

    fn recv_pages(&self) -> u32 {
        self.recv_pages
    }

    fn recv_kvecs(&self) -> u32 {
        self.recv_kvecs
    }

    fn recv_eligible(&self) -> bool {
        self.recv_eligible
    }

    fn is_opaque(&self) -> bool {
        self.opaque
    }
}

/// TV-V1-1: RDMA_MSG, call without chunks, 32 credits requested.
#[rustfmt::skip]
pub(crate) const TV_V1_1: [u32; 17] = [
    0xa1b2c301, // rdma_xid 0xa1b2c301
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    0xa1b2c301, 0, 2, 0x186a3, 3, // RPC: xid, CALL, rpcvers 2, prog 100003, vers 3
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-V1-2: RDMA_MSG, its reply, 16 credits granted.
#[rustfmt::skip]
pub(crate) const TV_V1_2: [u32; 13] = [
    0xa1b2c301, // rdma_xid 0xa1b2c301
    1, // rdma_vers 1
    0x10, // rdma_credit 16
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    0xa1b2c301, 1, 0, 0, 0, // RPC: xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE
    0, // accept_stat SUCCESS
];

/// TV-V1-3: RDMA_MSG, call (NFSv3 WRITE of 5001 bytes), one Read chunk of 2 segments at position
/// 132, no padding in the chunk.
#[rustfmt::skip]
pub(crate) const TV_V1_3: [u32; 52] = [
    0xa1b2c302, // rdma_xid 0xa1b2c302
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    0, // rdma_proc 0 RDMA_MSG
    1, // Read list: entry present
    0x84, 0x1701, 0x1000, 0, 0xfff0e000, // position, handle, length 4096, offset
    1, // entry present, same chunk
    0x84, 0x1702, 0x389, 0, 0xffe07000, // position, handle, length 905, offset
    0, // end of Read list
    0, // Write list empty
    0, // Reply chunk absent
    0xa1b2c302, 0, 2, 0x186a3, 3, // RPC: xid, CALL, 2, 100003, 3
    7, 1, 0x24, // proc 7 (WRITE), cred AUTH_SYS, 36 bytes
    0x5f3e2d1c, 8, 0x636c6965, 0x6e743031, 0, // AUTH_SYS body
    0, 2, 0, 0xa,
    0, 0, // verf AUTH_NONE
    0x20, 0x40414243, 0x44454647, 0x48494a4b, 0x4c4d4e4f, // file handle, 32 bytes
    0x50515253, 0x54555657, 0x58595a5b, 0x5c5d5e5f,
    0, 0x10000, // file offset 65536
    0x1389, 2, 0x1389, // count 5001, FILE_SYNC, data length 5001; data at 132 is in the chunk
];

/// TV-V1-4: RDMA_MSG, call, Write list with chunks of 3 and 2 segments (NULL payload as stand-in).
#[rustfmt::skip]
pub(crate) const TV_V1_4: [u32; 41] = [
    0xa1b2c303, // rdma_xid 0xa1b2c303
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    1, 3, // Write list: chunk 1 present, 3 segments
    0x2101, 0x1000, 0, 0x10000, // handle 0x2101, length 4096, offset 0x10000
    0x2102, 0x1000, 0, 0x20000, // handle 0x2102, length 4096, offset 0x20000
    0x2103, 0x1000, 0, 0x30000, // handle 0x2103, length 4096, offset 0x30000
    1, 2, // Write list: chunk 2 present, 2 segments
    0x2201, 0x800, 0x10, 0x40000, // handle 0x2201, length 2048, offset 0x1000040000
    0x2202, 0x200, 0x10, 0x50000, // handle 0x2202, length 512, offset 0x1000050000
    0, // end of Write list
    0, // Reply chunk absent
    0xa1b2c303, 0, 2, 0x186a3, 3, // RPC: xid, CALL, rpcvers 2, prog 100003, vers 3
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-V1-5: RDMA_MSG, reply to TV-V1-4: chunk 1 got 4196 bytes, chunk 2 unused.
#[rustfmt::skip]
pub(crate) const TV_V1_5: [u32; 37] = [
    0xa1b2c303, // rdma_xid 0xa1b2c303
    1, // rdma_vers 1
    0x10, // rdma_credit 16
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    1, 3, // Write list: chunk 1 present, 3 segments
    0x2101, 0x1000, 0, 0x10000, // handle 0x2101, length 4096, offset 0x10000
    0x2102, 0x64, 0, 0x20000, // handle 0x2102, length 100, offset 0x20000
    0x2103, 0, 0, 0x30000, // handle 0x2103, length 0, offset 0x30000
    1, 2, // Write list: chunk 2 present, 2 segments
    0x2201, 0, 0x10, 0x40000, // handle 0x2201, length 0, offset 0x1000040000
    0x2202, 0, 0x10, 0x50000, // handle 0x2202, length 0, offset 0x1000050000
    0, // end of Write list
    0, // Reply chunk absent
    0xa1b2c303, 1, 0, 0, 0, // RPC: xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE
    0, // accept_stat SUCCESS
];

/// TV-V1-6: RDMA_MSG, call, Reply chunk of 2 segments (NULL payload as stand-in).
#[rustfmt::skip]
pub(crate) const TV_V1_6: [u32; 26] = [
    0xa1b2c304, // rdma_xid 0xa1b2c304
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    0, // Write list empty
    1, 2, // Reply chunk present, 2 segments
    0x3101, 0x1000, 0, 0x60000, // handle 0x3101, length 4096, offset 0x60000
    0x3102, 0x400, 0, 0x70000, // handle 0x3102, length 1024, offset 0x70000
    0xa1b2c304, 0, 2, 0x186a3, 3, // RPC: xid, CALL, rpcvers 2, prog 100003, vers 3
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-V1-7: RDMA_NOMSG, call: position-zero Read chunk (2 segments, 4908 bytes) and Reply chunk (1
/// segment).
#[rustfmt::skip]
pub(crate) const TV_V1_7: [u32; 24] = [
    0xa1b2c305, // rdma_xid 0xa1b2c305
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    1, // rdma_proc 1 RDMA_NOMSG
    1, // Read list: entry present
    0, 0x4101, 0x1000, 0, 0x80000, // position 0, handle 0x4101, length 4096, offset 0x80000
    1, // entry present
    0, 0x4102, 0x32c, 0, 0x91000, // position 0, handle 0x4102, length 812, offset 0x91000
    0, // end of Read list
    0, // Write list empty
    1, 1, // Reply chunk present, 1 segment
    0x4201, 0x2000, 0, 0xa0000, // handle 0x4201, length 8192, offset 0xa0000
];

/// TV-V1-8: RDMA_NOMSG, reply to TV-V1-7: 5120 bytes in the Reply chunk.
#[rustfmt::skip]
pub(crate) const TV_V1_8: [u32; 12] = [
    0xa1b2c305, // rdma_xid 0xa1b2c305
    1, // rdma_vers 1
    0x10, // rdma_credit 16
    1, // rdma_proc 1 RDMA_NOMSG
    0, // Read list empty
    0, // Write list empty
    1, 1, // Reply chunk present, 1 segment
    0x4201, 0x1400, 0, 0xa0000, // handle 0x4201, length 5120, offset 0xa0000
];

/// TV-V1-9: RDMA_ERROR, ERR_VERS 1..1, in reply to a version 2 message.
#[rustfmt::skip]
pub(crate) const TV_V1_9: [u32; 7] = [
    0xa1b2c306, // rdma_xid 0xa1b2c306
    2, // rdma_vers 2 (copied from the failing message)
    0x10, // rdma_credit 16
    4, // rdma_proc 4 RDMA_ERROR
    1, // rdma_err 1 ERR_VERS
    1, // lowest version 1
    1, // highest version 1
];

/// TV-V1-10: RDMA_ERROR, ERR_CHUNK.
#[rustfmt::skip]
pub(crate) const TV_V1_10: [u32; 5] = [
    0xa1b2c307, // rdma_xid 0xa1b2c307
    1, // rdma_vers 1
    0x10, // rdma_credit 16
    4, // rdma_proc 4 RDMA_ERROR
    2, // rdma_err 2 ERR_CHUNK
];

/// TV-BI-1: reverse call (CB_NULL, program 0x40000000), 2 credits requested.
#[rustfmt::skip]
pub(crate) const TV_BI_1: [u32; 17] = [
    7, // rdma_xid 0x00000007
    1, // rdma_vers 1
    2, // rdma_credit 2
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    7, 0, 2, 0x40000000, 1, // RPC: xid, CALL, rpcvers 2, prog 0x40000000, vers 1
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-BI-2: its reverse reply, 2 credits granted.
#[rustfmt::skip]
pub(crate) const TV_BI_2: [u32; 13] = [
    7, // rdma_xid 0x00000007
    1, // rdma_vers 1
    2, // rdma_credit 2
    0, // rdma_proc 0 RDMA_MSG
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    7, 1, 0, 0, 0, // RPC: xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE
    0, // accept_stat SUCCESS
];
