// SPDX-License-Identifier: GPL-2.0

//! The pieces that make up the arguments of a call.

use super::{
    padding,
    Chunk,
    Rebuild, //
};

/// The origin of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The inline part, from this byte on.
    Inline(u32),
    /// An RDMA Read.
    Read {
        /// The handle of the segment.
        handle: u32,
        /// The address of the first byte.
        offset: u64,
    },
    /// Padding, which is zero.
    Zeros,
}

/// A piece of the arguments; it has at least one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its place in the arguments, in bytes.
    pub(crate) at: u32,
    /// Its length in bytes.
    pub(crate) len: u32,
    /// Its origin.
    pub(crate) source: Source,
}

/// Bytes in a row from one origin, and the padding behind them.
#[derive(Clone, Copy)]
struct Run {
    at: u32,
    len: u32,
    padding: u32,
    from: From,
}

#[derive(Clone, Copy)]
enum From {
    /// The inline part, from this byte on.
    Inline(u32),
    /// The chunk at `position`, without its first `skip` bytes.
    Chunk { position: u32, skip: u32 },
}

impl<'a> Rebuild<'a> {
    /// The pieces in the order of the arguments, without a gap between them.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + 'a {
        let plan = *self;
        plan.runs().flat_map(move |run| plan.pieces_of(run))
    }

    /// Body and chunks in turn, up to the rest of the body.
    ///
    /// By the type invariant no subtraction or sum here comes to its limit.
    fn runs(&self) -> impl Iterator<Item = Run> + 'a {
        let plan = *self;
        let mut chunk = 0_usize;
        let mut end = 0_u32;
        let mut body = 0_u32;
        let mut next_chunk = None;
        let mut over = false;
        core::iter::from_fn(move || {
            if over {
                return None;
            }
            if let Some(Chunk { position, len }) = next_chunk.take() {
                let padding = padding(len);
                end = end.saturating_add(len).saturating_add(padding);
                return Some(Run {
                    at: position,
                    len,
                    padding,
                    from: From::Chunk { position, skip: 0 },
                });
            }
            next_chunk = plan.chunks.get(chunk);
            chunk = chunk.saturating_add(1);
            over = next_chunk.is_none();
            let len = match next_chunk {
                Some(chunk) => chunk.position.saturating_sub(end),
                None => plan.body.saturating_sub(body),
            };
            let run = Run {
                at: end,
                len,
                padding: if over && plan.long { padding(len) } else { 0 },
                from: plan.body_from(body),
            };
            body = body.saturating_add(len);
            end = end.saturating_add(len);
            Some(run)
        })
    }

    fn body_from(&self, byte: u32) -> From {
        if self.long {
            From::Chunk {
                position: 0,
                skip: byte,
            }
        } else {
            From::Inline(byte)
        }
    }

    fn pieces_of(&self, run: Run) -> impl Iterator<Item = Piece> + 'a {
        let piece = |at, len, source| (len != 0).then_some(Piece { at, len, source });
        let inline = match run.from {
            From::Inline(byte) => piece(run.at, run.len, Source::Inline(byte)),
            From::Chunk { .. } => None,
        };
        let zeros = piece(run.at.saturating_add(run.len), run.padding, Source::Zeros);
        inline.into_iter().chain(self.reads_of(run)).chain(zeros)
    }

    /// The RDMA Reads of a run, one for each segment.
    fn reads_of(&self, run: Run) -> impl Iterator<Item = Piece> + 'a {
        let (chunk, mut skip) = match run.from {
            From::Inline(_) => (None, 0),
            From::Chunk { position, skip } => (Some(position), skip),
        };
        let mut at = run.at;
        let mut left = run.len;
        self.read
            .segments()
            .filter(move |read| chunk == Some(read.position))
            .filter_map(move |read| {
                let segment = read.segment;
                let skipped = skip.min(segment.length);
                skip = skip.saturating_sub(skipped);
                let len = segment.length.saturating_sub(skipped).min(left);
                if len == 0 {
                    return None;
                }
                let piece = Piece {
                    at,
                    len,
                    source: Source::Read {
                        handle: segment.handle,
                        // NO-OVERFLOW: a byte of the segment, which does not wrap.
                        offset: segment.offset.wrapping_add(u64::from(skipped)),
                    },
                };
                at = at.saturating_add(len);
                left = left.saturating_sub(len);
                Some(piece)
            })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_pieces))]
mod tests {
    use super::{
        super::{
            super::{
                super::{
                    vectors::*,
                    wire::Wire, //
                },
                received::Received, //
            },
            ArgumentLimits, //
        },
        *, //
    };

    // TV-V1-1, V1-45: all inline.
    #[test]
    fn inline() {
        let expected = [inline_piece(0, 40, 0)];
        assert!(gives(&Message::new(&TV_V1_1), &expected));
    }

    // TV-V1-3, V1-73, V1-76, V1-80: a chunk behind the inline part, in the middle of it, and with a
    // segment of length 0.
    #[test]
    fn one_chunk() {
        let message = Message::new(&TV_V1_3);
        let first = read(132, 4096, 0x1701, 0xfff0_e000);
        let second = read(4228, 905, 0x1702, 0xffe0_7000);
        let expected = [inline_piece(0, 132, 0), first, second, zeros(5133, 3)];
        assert!(gives(&message, &expected));

        let expected = [
            inline_piece(0, 128, 0),
            read(128, 4096, 0x1701, 0xfff0_e000),
            read(4224, 905, 0x1702, 0xffe0_7000),
            zeros(5129, 3),
            inline_piece(5132, 4, 128),
        ];
        assert!(gives(&message.put(20, 128).put(44, 128), &expected));

        let second = read(132, 905, 0x1702, 0xffe0_7000);
        let expected = [inline_piece(0, 132, 0), second, zeros(1037, 3)];
        assert!(gives(&message.put(28, 0), &expected));
    }

    // V1-72, V1-76, V1-78: two chunks, in either order of the list, each with its padding.
    #[test]
    fn two_chunks() {
        let message = Message::new(&TV_V1_3);
        let expected = [
            inline_piece(0, 100, 0),
            read(100, 905, 0x1702, 0xffe0_7000),
            zeros(1005, 3),
            inline_piece(1008, 8, 100),
            read(1016, 4096, 0x1701, 0xfff0_e000),
            inline_piece(5112, 24, 108),
        ];
        assert!(gives(&message.put(20, 1016).put(44, 100), &expected));
        // One directly behind the other.
        let expected = [
            inline_piece(0, 132, 0),
            read(132, 905, 0x1702, 0xffe0_7000),
            zeros(1037, 3),
            read(1040, 4096, 0x1701, 0xfff0_e000),
        ];
        assert!(gives(&message.put(20, 1040).put(44, 132), &expected));
    }

    // TV-V1-7, V1-48, V1-52: a Long call, and one with another chunk inside.
    #[test]
    fn long() {
        let message = Message::new(&TV_V1_7);
        let expected = [
            read(0, 4096, 0x4101, 0x80000),
            read(4096, 812, 0x4102, 0x91000),
        ];
        assert!(gives(&message, &expected));
        let expected = [
            read(0, 4096, 0x4101, 0x80000),
            read(4096, 810, 0x4102, 0x91000),
            zeros(4906, 2),
        ];
        assert!(gives(&message.put(52, 810), &expected));
        let expected = [
            read(0, 1024, 0x4101, 0x80000),
            read(1024, 810, 0x4102, 0x91000),
            zeros(1834, 2),
            read(1836, 3072, 0x4101, 0x80400),
        ];
        assert!(gives(&message.put(44, 1024).put(52, 810), &expected));
    }

    fn gives(message: &Message, expected: &[Piece]) -> bool {
        let Received::Call(call) = Wire::V1.receive_call(message.bytes()) else {
            return false;
        };
        let limits = ArgumentLimits {
            len: 1 << 20,
            segments: 8,
        };
        let Ok(plan) = Rebuild::plan(&call.chunks, call.payload, &limits) else {
            return false;
        };
        let is_read = |piece: &&Piece| matches!(piece.source, Source::Read { .. });
        plan.pieces().eq(expected.iter().copied())
            && plan.most_reads() >= expected.iter().filter(is_read).count()
            && expected
                .last()
                .map(|piece| piece.at.wrapping_add(piece.len))
                == Some(plan.len())
    }

    fn inline_piece(at: u32, len: u32, byte: u32) -> Piece {
        let source = Source::Inline(byte);
        Piece { at, len, source }
    }

    fn read(at: u32, len: u32, handle: u32, offset: u64) -> Piece {
        let source = Source::Read { handle, offset };
        Piece { at, len, source }
    }

    fn zeros(at: u32, len: u32) -> Piece {
        let source = Source::Zeros;
        Piece { at, len, source }
    }
}
