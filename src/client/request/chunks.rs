// SPDX-License-Identifier: GPL-2.0

//! The chunks of a call that is sent, as its request keeps them until the reply.

use core::slice;

use kernel::prelude::*;

use crate::os::series::EMSGSIZE;
use crate::proto::{
    Chunks,
    ReadSegment,
    Segment, //
};

/// The most segments of one chunk.
pub(in crate::client) const MAX_SEGMENTS: usize = 16;

/// The chunks of a call. Nearly all calls have none, or one of one segment.
pub(in crate::client) enum CallChunks {
    /// None.
    None,
    /// A Read chunk of this segment.
    Read(ReadSegment),
    /// A Write chunk of this segment.
    Write(Segment),
    /// A Reply chunk of this segment.
    Reply(Segment),
    /// Those of the request's [`Lists`].
    Lists,
}

impl CallChunks {
    /// The chunks, as they are in the header. `lists` are the request's.
    #[inline(always)]
    pub(in crate::client) fn get<'a>(&'a self, lists: Option<&'a Lists>) -> Chunks<'a> {
        let none = Chunks::default();
        match self {
            Self::None => none,
            Self::Read(segment) => Chunks {
                read: slice::from_ref(segment),
                ..none
            },
            Self::Write(segment) => Chunks {
                write: slice::from_ref(segment),
                ..none
            },
            Self::Reply(segment) => Chunks {
                reply: slice::from_ref(segment),
                ..none
            },
            Self::Lists => lists.map_or(none, Lists::get),
        }
    }
}

/// A list of segments of type `T`.
pub(in crate::client) struct List<T> {
    all: [T; MAX_SEGMENTS],
    len: usize,
}

impl<T: Copy + Default> List<T> {
    /// An empty list.
    fn new() -> Self {
        Self {
            all: [T::default(); MAX_SEGMENTS],
            len: 0,
        }
    }

    /// Forgets all segments.
    #[inline]
    fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a segment.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` when the list is full.
    #[inline]
    pub(in crate::client) fn push(&mut self, segment: T) -> Result {
        *self.all.get_mut(self.len).ok_or(EMSGSIZE)? = segment;
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// The segments.
    #[inline]
    fn as_slice(&self) -> &[T] {
        self.all.get(..self.len).unwrap_or(&[])
    }
}

/// Room for the chunks of any call.
pub(in crate::client) struct Lists {
    /// Its Read list.
    pub(in crate::client) read: List<ReadSegment>,
    /// The Write chunk it offers.
    pub(in crate::client) write: List<Segment>,
    /// The Reply chunk it offers.
    pub(in crate::client) reply: List<Segment>,
}

impl Lists {
    /// No chunks.
    pub(in crate::client) fn new() -> Self {
        Self {
            read: List::new(),
            write: List::new(),
            reply: List::new(),
        }
    }

    /// Forgets all chunks.
    #[inline]
    pub(in crate::client) fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.reply.clear();
    }

    /// The chunks.
    #[inline]
    pub(in crate::client) fn get(&self) -> Chunks<'_> {
        Chunks {
            read: self.read.as_slice(),
            write: self.write.as_slice(),
            reply: self.reply.as_slice(),
        }
    }
}
