// SPDX-License-Identifier: GPL-2.0

//! The words of the log, of a trace and of the end of a connection: different for each reason.

use std::collections::BTreeSet;

use crate::module::proto::{Defect, Malformed, PlanError, Reason};

/// Fails unless all texts differ and each fits into a line behind the name of a peer.
fn all_differ<const N: usize>(texts: [&str; N]) {
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), N, "{texts:?}");
    assert!(
        texts.iter().all(|text| (8..60).contains(&text.len())),
        "{texts:?}"
    );
}

// V1-105, V1-108, V1-117: a message that cannot be used.
#[test]
fn messages() {
    let defects = [
        Defect::Type,
        Defect::Done,
        Defect::Truncated,
        Defect::OptionalData,
        Defect::NoLists,
        Defect::ShortPayload,
        Defect::XidMismatch,
        Defect::Direction,
        Defect::Position,
        Defect::Wraps,
    ];
    all_differ(defects.map(Defect::as_str));
    all_differ(
        [
            Reason::Short,
            Reason::Version,
            Reason::Type,
            Reason::XidMismatch,
            Reason::Defect(Defect::Wraps),
            Reason::UndecodableError,
        ]
        .map(Reason::as_str),
    );
    for defect in defects {
        assert_eq!(Reason::Defect(defect).as_str(), defect.as_str());
    }
}

// V1-89..V1-92, V1-101, V1-102: a reply that contradicts its call.
#[test]
fn replies() {
    all_differ(
        [
            Malformed::ReadList,
            Malformed::WriteChunkCount,
            Malformed::SegmentCount,
            Malformed::TooLong,
            Malformed::Hole,
            Malformed::ReplyChunkUsed,
            Malformed::NoReplyChunk,
            Malformed::ShortReply,
            Malformed::BothUsed,
        ]
        .map(Malformed::as_str),
    );
}

// V1-153: a call that cannot be sent.
#[test]
fn plans() {
    all_differ(
        [
            PlanError::TooManySegments,
            PlanError::CallHeader,
            PlanError::ReplyHeader,
            PlanError::Shape,
            PlanError::Limits,
        ]
        .map(PlanError::as_str),
    );
}
