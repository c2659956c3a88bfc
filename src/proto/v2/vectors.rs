// SPDX-License-Identifier: GPL-2.0

//! Messages of version 2 for the tests, as [`super::super::vectors`] for version 1.

/// TV-V2-1: RDMA2_MSG, call without chunks.
#[rustfmt::skip]
pub(crate) const TV_V2_1: [u32; 18] = [
    0xb2000001, // rdma_xid 0xb2000001
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    0, // rdma_proc 0 RDMA2_MSG
    0, // rdma_direction CALL
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    0xb2000001, 0, 2, 0x186a3, 3, // RPC: xid, CALL, rpcvers 2, prog 100003, vers 3
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-V2-2: RDMA2_MSG, its reply.
#[rustfmt::skip]
pub(crate) const TV_V2_2: [u32; 14] = [
    0xb2000001, // rdma_xid 0xb2000001
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    0, // rdma_proc 0 RDMA2_MSG
    1, // rdma_direction REPLY
    0, // Read list empty
    0, // Write list empty
    0, // Reply chunk absent
    0xb2000001, 1, 0, 0, 0, // RPC: xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE
    0, // accept_stat SUCCESS
];

/// TV-V2-3: RDMA2_ERROR, INVAL_OPTION.
#[rustfmt::skip]
pub(crate) const TV_V2_3: [u32; 5] = [
    0xb2000002, // rdma_xid 0xb2000002
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    4, // rdma_proc 4 RDMA2_ERROR
    3, // rdma_err 3 INVAL_OPTION
];

/// TV-V2-4: ERR_VERS 1..1 in reply to TV-V2-1 with a version word of its own, the request for
/// credits echoed.
#[rustfmt::skip]
pub(crate) const TV_V2_4: [u32; 7] = [
    0xb2000001, // rdma_xid 0xb2000001
    1, // rdma_vers 1
    0x20, // rdma_credit 32
    4, // rdma_proc 4 RDMA_ERROR
    1, // rdma_err 1 ERR_VERS
    1, // lowest version 1
    1, // highest version 1
];

/// TV-V2-5: RDMA2_NOMSG, Long call of 1400 bytes, no reply chunks.
#[rustfmt::skip]
pub(crate) const TV_V2_5: [u32; 14] = [
    0xb2000006, // rdma_xid 0xb2000006
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    1, // rdma_proc 1 RDMA2_NOMSG
    0, // rdma_direction CALL
    1, 0, // Read list: entry, position 0
    0x2101, 0x578, 0, 0x10000, // handle, length 1400, offset 0x10000
    0, // Read list ends
    0, // Write list empty
    0, // Reply chunk absent
];

/// TV-V2-6: RDMA2_MSG, reply with one Write chunk of one segment, 8192 bytes written.
#[rustfmt::skip]
pub(crate) const TV_V2_6: [u32; 20] = [
    0xb2000007, // rdma_xid 0xb2000007
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    0, // rdma_proc 0 RDMA2_MSG
    1, // rdma_direction REPLY
    0, // Read list empty
    1, 1, // Write list: entry, 1 segment
    0x2102, 0x2000, 0, 0x20000, // handle, length 8192, offset 0x20000
    0, // Write list ends
    0, // Reply chunk absent
    0xb2000007, 1, 0, 0, 0, // RPC: xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE
    0, // accept_stat SUCCESS; results follow
];

/// TV-V2-7: Reverse call (CB_NULL, program 0x40000000), 2 credits requested.
#[rustfmt::skip]
pub(crate) const TV_V2_7: [u32; 18] = [
    0x31, // rdma_xid 0x00000031
    2, // rdma_vers 2
    2, // rdma_credit 2
    0, // rdma_proc 0 RDMA2_MSG
    0, // rdma_direction CALL
    0, 0, 0, // three empty lists
    0x31, 0, 2, 0x40000000, 1, // RPC: xid, CALL, rpcvers 2, prog, vers 1
    0, 0, 0, 0, 0, // proc 0 (NULL), cred AUTH_NONE, verf AUTH_NONE
];

/// TV-XC-1: ROPT_INITXCH: buffer 8192, remote invalidation yes, reverse calls inline; none will
/// change.
#[rustfmt::skip]
pub(crate) const TV_XC_1: [u32; 19] = [
    0xb2000003, // rdma_xid 0xb2000003
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    1, // rdma_opttype 1 ROPT_INITXCH
    0x30, // rdma_optinfo length 48
    3, // optixch_start: 3 entries
    1, 4, 0x2000, // 0: XCHAR_RBSIZ, 4 bytes, 8192
    2, 4, 1, // 1: XCHAR_REQREMINV, 4 bytes, true
    3, 4, 1, // 2: XCHAR_BRS, 4 bytes, INLINE
    1, // optixch_nochg: 1 word
    7, // entries 0, 1, 2
];

/// TV-XC-2: ROPT_REQXCH: buffer 16384, reverse calls in general, one experimental id with 5 bytes.
#[rustfmt::skip]
pub(crate) const TV_XC_2: [u32; 18] = [
    0xb2000004, // rdma_xid 0xb2000004
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    2, // rdma_opttype 2 ROPT_REQXCH
    0x2c, // rdma_optinfo length 44
    3, // optreqxch_want: 3 entries
    1, 4, 0x4000, // 0: XCHAR_RBSIZ, 4 bytes, 16384
    3, 4, 2, // 1: XCHAR_BRS, 4 bytes, GENL
    0xffffff01, 5, 0x68656c6c, 0x6f000000, // 2: experimental id, 5 bytes "hello", 3 padding
];

/// TV-XC-3: ROPT_RESPXCH to TV-XC-2: entry 1 done, entry 2 rejected, entry 0 pending.
#[rustfmt::skip]
pub(crate) const TV_XC_3: [u32; 13] = [
    0xb2000004, // rdma_xid 0xb2000004
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    5, // rdma_proc 5 RDMA2_OPTIONAL
    1, // rdma_optdir REPLY
    3, // rdma_opttype 3 ROPT_RESPXCH
    0x18, // rdma_optinfo length 24
    1, 2, // optrespxch_done: 1 word, entry 1
    1, 4, // optrespxch_rej: 1 word, entry 2
    1, 1, // optrespxch_pend: 1 word, entry 0
];

/// TV-XC-4: ROPT_UPDXCH: buffer now 8192, request of TV-XC-2 still pending (xid of the sender's own
/// space).
#[rustfmt::skip]
pub(crate) const TV_XC_4: [u32; 11] = [
    0x21, // rdma_xid 0x00000021
    2, // rdma_vers 2
    2, // rdma_credit 2
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    4, // rdma_opttype 4 ROPT_UPDXCH
    0x10, // rdma_optinfo length 16
    1, 4, 0x2000, // XCHAR_RBSIZ, 4 bytes, 8192
    0, // optupdxch_pendclr false
];

/// TV-XC-5: ROPT_UPDXCH: buffer now 16384, request finished with success.
#[rustfmt::skip]
pub(crate) const TV_XC_5: [u32; 11] = [
    0x22, // rdma_xid 0x00000022
    2, // rdma_vers 2
    2, // rdma_credit 2
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    4, // rdma_opttype 4 ROPT_UPDXCH
    0x10, // rdma_optinfo length 16
    1, 4, 0x4000, // XCHAR_RBSIZ, 4 bytes, 16384
    1, // optupdxch_pendclr true
];

/// TV-XC-6: ROPT_INITXCH, empty: no entries, empty subset.
#[rustfmt::skip]
pub(crate) const TV_XC_6: [u32; 9] = [
    0xb2000005, // rdma_xid 0xb2000005
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    1, // rdma_opttype 1 ROPT_INITXCH
    8, // rdma_optinfo length 8
    0, // optixch_start: 0 entries
    0, // optixch_nochg: 0 words
];

/// TV-XC-8: ROPT_REQXCH without entries, used to confirm what was sent before.
#[rustfmt::skip]
pub(crate) const TV_XC_8: [u32; 8] = [
    0x23, // rdma_xid 0x00000023
    2, // rdma_vers 2
    2, // rdma_credit 2
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    2, // rdma_opttype 2 ROPT_REQXCH
    4, // rdma_optinfo length 4
    0, // optreqxch_want: 0 entries
];

/// TV-XC-9: ROPT_RESPXCH to TV-XC-8, sent by a client: its credits word is the reverse grant 16.
#[rustfmt::skip]
pub(crate) const TV_XC_9: [u32; 10] = [
    0x23, // rdma_xid 0x00000023
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    5, // rdma_proc 5 RDMA2_OPTIONAL
    1, // rdma_optdir REPLY
    3, // rdma_opttype 3 ROPT_RESPXCH
    0xc, // rdma_optinfo length 12
    0, // optrespxch_done: 0 words
    0, // optrespxch_rej: 0 words
    0, // optrespxch_pend: 0 words
];

/// TV-XC-10: ROPT_REQXCH of a client: server buffer 65536.
#[rustfmt::skip]
pub(crate) const TV_XC_10: [u32; 11] = [
    0xb2000008, // rdma_xid 0xb2000008
    2, // rdma_vers 2
    0x20, // rdma_credit 32
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    2, // rdma_opttype 2 ROPT_REQXCH
    0x10, // rdma_optinfo length 16
    1, // optreqxch_want: 1 entry
    1, 4, 0x10000, // 0: XCHAR_RBSIZ, 4 bytes, 65536
];

/// TV-XC-11: ROPT_RESPXCH to TV-XC-10: pending.
#[rustfmt::skip]
pub(crate) const TV_XC_11: [u32; 11] = [
    0xb2000008, // rdma_xid 0xb2000008
    2, // rdma_vers 2
    0x10, // rdma_credit 16
    5, // rdma_proc 5 RDMA2_OPTIONAL
    1, // rdma_optdir REPLY
    3, // rdma_opttype 3 ROPT_RESPXCH
    0x10, // rdma_optinfo length 16
    0, // optrespxch_done: 0 words
    0, // optrespxch_rej: 0 words
    1, 1, // optrespxch_pend: 1 word, entry 0
];

/// TV-XC-12: ROPT_UPDXCH that ends TV-XC-10 with less than requested: 16384, finished.
#[rustfmt::skip]
pub(crate) const TV_XC_12: [u32; 11] = [
    0x24, // rdma_xid 0x00000024
    2, // rdma_vers 2
    2, // rdma_credit 2
    5, // rdma_proc 5 RDMA2_OPTIONAL
    0, // rdma_optdir CALL
    4, // rdma_opttype 4 ROPT_UPDXCH
    0x10, // rdma_optinfo length 16
    1, 4, 0x4000, // XCHAR_RBSIZ, 4 bytes, 16384
    1, // optupdxch_pendclr true
];
