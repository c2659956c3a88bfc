// SPDX-License-Identifier: GPL-2.0

//! The form of rebuilt arguments.

use super::{
    padding,
    Chunk,
    Rebuild, //
};

/// The form of rebuilt arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of them are inline.
    Inline,
    /// The inline part has one chunk, whose data can be read into pages of their own.
    Chunk {
        /// Bytes of the inline part before it.
        position: u32,
        /// Bytes of the chunk.
        len: u32,
        /// Zeros behind the chunk.
        padding: u32,
    },
    /// Any other.
    Pieces,
}

impl Rebuild<'_> {
    /// The form of the arguments.
    pub(crate) fn form(&self) -> Form {
        let mut chunks = self.rising();
        match (self.long, chunks.next(), chunks.next()) {
            (false, None, _) => Form::Inline,
            (false, Some(Chunk { position, len }), None) => Form::Chunk {
                position,
                len,
                padding: padding(len),
            },
            _ => Form::Pieces,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_form))]
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

    // TV-V1-1, 3, 7, V1-45, V1-73, V1-76: the lengths of each form, with padding.
    #[test]
    fn forms() {
        let chunk = Form::Chunk {
            position: 132,
            len: 5001,
            padding: 3,
        };
        for (words, form) in [
            (TV_V1_1.as_slice(), (Form::Inline, 40)),
            (TV_V1_4.as_slice(), (Form::Inline, 40)),
            (TV_V1_3.as_slice(), (chunk, 5136)),
            (TV_V1_7.as_slice(), (Form::Pieces, 4908)),
        ] {
            assert_eq!(plan(&Message::new(words)), Some(form));
        }
        // One at another position is a second chunk.
        let two = Message::new(&TV_V1_7).put(44, 1024);
        assert_eq!(plan(&two), Some((Form::Pieces, 4908)));
        let behind = Message::new(&TV_V1_7).put(44, 4096).put(52, 811);
        assert_eq!(plan(&behind), Some((Form::Pieces, 4908)));
    }

    fn plan(message: &Message) -> Option<(Form, u32)> {
        let Received::Call(call) = Wire::V1.receive_call(message.bytes()) else {
            return None;
        };
        let limits = ArgumentLimits {
            len: 1 << 20,
            segments: 8,
        };
        let plan = Rebuild::plan(&call.chunks, call.payload, &limits).ok()?;
        Some((plan.form(), plan.len()))
    }
}
