# SPDX-License-Identifier: GPL-2.0
"""The facts about requirements that neither code nor tests cite."""

from __future__ import annotations

# Items of files and the requirements that each meets, besides the files that cite them.
PLACES = {
    "src/client/connect.rs: negotiate": "BI-1 PD-1 PD-3 PD-21 PD-44 PD-46 PD-52 V1-38 V1-43 V1-141",
    "src/client/connect/size.rs: Sizing": "PD-13 PD-17 V1-29 V1-33 V1-42 BI-11 BI-12",
    "src/client/negotiated.rs: Negotiated": "PD-19 V1-44",
    "src/client/connection.rs: granted": "V1-25 V1-39",
    "src/client/request.rs: CallData": "V1-81",
    "src/client/reply.rs: reply": "PD-29 V1-112 V1-113 V1-126",
    "src/client/reply/unexpected.rs: violated": "V1-113",
    "src/client/reverse.rs: refuse": "BI-5 BI-30",
    "src/client/reverse.rs: send_reverse": "BI-2 BI-4 BI-7 BI-19 BI-26 BI-27",
    "src/client/reverse.rs: NotSetUp": "BI-16",
    "src/client/reverse.rs: NoSlot": "BI-10",
    "src/client/send/build.rs: build": "V1-2 V1-3 V1-14 V1-21 V1-95",
    "src/client/send/chunks.rs: expose": "V1-46 V1-48 V1-70 V1-78 V1-84 V1-125",
    "src/client/send/build.rs: Unsendable": "V1-119",
    "src/client/shared.rs: REVERSE_SLOTS": "BI-5 BI-34",
    "src/client/transport.rs: timed_out": "V1-123",
    "src/proto/wire.rs: reverse_payload": "BI-20 V2-28",
    "src/cm/id.rs: Event": "PD-44 PD-46",
    "src/os/param.rs: Uint": "PD-12 V1-37",
    "src/proto/chunk.rs: ChunkLists": "V1-10 V1-98",
    "src/proto/chunk.rs: present": "V1-18",
    "src/proto/chunk.rs: decode": "V1-19 V1-68 V1-82",
    "src/proto/credits.rs: grant": "V1-25 V1-29 BI-6",
    "src/proto/v1/encode.rs: encode_call": "V1-5 V1-8 V1-11 V1-115",
    "src/proto/error.rs: RdmaError": "V1-40 V1-104 V1-149",
    "src/proto/prefix.rs: Prefix": "V1-4",
    "src/proto/v1/header.rs: decode": "V1-9 V1-11 V1-12 V1-15 V1-16 PD-47",
    "src/proto/v1/requester.rs: classify": "V1-7 V1-15 V1-17 V1-20 V1-105 V1-108 V1-111 V1-114 V1-117 V1-139 BI-3 BI-22 BI-23 BI-24 BI-28 BI-31",
    "src/proto/v1/plan.rs: plan": "V1-45 V1-47 V1-54 V1-67 V1-136 V1-138 V1-153 PD-16",
    "src/proto/v1/plan.rs: plan_reply": "V1-55 V1-83 V1-99",
    "src/proto/private_data.rs: InlineSize": "PD-8 PD-9 PD-10 PD-11",
    "src/proto/private_data.rs: encode": "PD-2 PD-4 PD-5 PD-6",
    "src/proto/private_data.rs: find": "PD-2 PD-34 PD-35 PD-36 PD-37 PD-39 PD-40 PD-41 PD-42 PD-43 PD-48 PD-49",
    "src/proto/private_data.rs: decode": "PD-7 PD-38",
    "src/proto/private_data.rs: for_client": "PD-14 PD-16 PD-50",
    "src/proto/returned.rs: Malformed": "V1-89 V1-90 V1-91 V1-92 V1-101 V1-102",
    "src/proto/reply.rs: Placed": "V1-66 V1-100 V1-151",
    "src/proto/returned.rs: Part": "V1-93",
    "src/policy/settings.rs: own": "PD-26 PD-27",
    "src/policy/settings.rs: versions": "V2-24",
    "src/client/negotiated.rs: agree": "V2-8 V2-22 V2-23 V2-25",
    "src/client/connection/offer.rs: Offer": "V2-6",
    "src/server/connection/version.rs: Version": "V2-68 V2-70",
    "src/server/connection/receive.rs: invalidation": "V2-26",
    "src/proto/v2/negotiate.rs: Versions": "V2-2 V2-21 V2-61 V2-62 V2-63",
    "src/proto/v2/negotiate/client.rs: Client": "V2-10 V2-11 V2-12 V2-14 V2-15 V2-16 V2-17 V2-65 V2-66 V2-67",
    "src/proto/v2/negotiate/server.rs: Server": "V2-19 V2-20",
    "src/proto/v2/credits.rs: Credits": "V2-43 V2-51 V2-59 V2-75 XC-86",
    "src/proto/v2/pending/xids.rs: Xids": "V2-44",
    "src/proto/v2/peers.rs: Peers": "V2-71 XC-106",
    "src/proto/v2/end.rs: End": (
        "V2-56 V2-72 V2-73 XC-22 XC-24 XC-25 XC-31 XC-32 XC-33 XC-38 XC-40 XC-43 XC-45 XC-47 XC-48 XC-60 XC-61 XC-67 "
        "XC-69 XC-74 XC-88 XC-89 XC-99 XC-103 XC-104 XC-105"
    ),
    "src/proto/v2/limits.rs: Limits": "V2-74 XC-75 XC-76 XC-96 XC-101",
    "src/proto/v2/limits/growth.rs: Size": "XC-23 XC-70 XC-90 XC-91 XC-92 XC-93 XC-94 XC-95",
    "src/proto/v2/pending.rs: Requests": "XC-57 XC-59 XC-64 XC-65 XC-72 XC-97 XC-100",
    "src/proto/xdr.rs: Reader": "V1-1",
    "src/sunrpc/xprt/call.rs: is_opaque": "V1-136 V1-138",
    "src/sunrpc/xprt/class.rs: Class": "V1-142 V1-143 V1-155",
    "src/sunrpc/xprt/transport.rs: Transport": "V1-137",
    "src/sunrpc/xprt/rqst.rs: fail": "V1-110",
    "src/sunrpc/xprt/rqst.rs: fill": "V1-127 V1-152",
    "src/sunrpc/xdr_buf.rs: may_be_read_chunk": "V1-53 V1-59",
    "src/sunrpc/xdr_buf.rs: pages": "V1-71 V1-77 V1-97",
    "src/sunrpc/xprt.rs: set_credits": "V1-27 V1-28 V1-30 V1-41",
    "src/sunrpc/xprt.rs: reset_credits": "V1-31 V1-32",
    "src/verbs/buffer.rs: DmaBuffer": "V1-124",
    "src/verbs/mr/registration.rs: describe": "V1-69 V1-129",
    "src/verbs/mr/registration.rs: Mr": "V1-57 V1-124 V1-133",
    "src/verbs/mr/list.rs: Registered": "V1-81 V1-126 V1-128 V1-134",
    "src/client/connection/loss.rs: announce_loss": "V1-122 PD-20",
    "src/cm/incoming.rs: Accepting": "V1-38",
    "src/proto/private_data.rs: for_server": "PD-15 PD-50",
    "src/proto/v1/responder.rs: receive": "V1-7 V1-17 V1-20 V1-103 V1-114 V1-139 BI-3 BI-29 BI-31",
    "src/proto/v1/responder.rs: reverse_reply": "BI-22 BI-23 BI-24 BI-29",
    "src/proto/v1/responder.rs: unusable": "V1-15 V1-104 V1-105 V1-106 V1-107 V1-114 V1-116",
    "src/proto/responder/check.rs: check": "V1-7 V1-11 V1-79 V1-107",
    "src/proto/responder/grant.rs: grant": "V1-23 V1-24 V1-26 V1-34 V1-37",
    "src/proto/responder/grant.rs: receives": "BI-13 BI-14",
    "src/proto/responder/invalidation.rs: permitted": "PD-23 PD-24 PD-28 PD-52",
    "src/proto/responder/invalidation.rs: handle": "PD-25 PD-32",
    "src/proto/responder/offer.rs: OfferLimits": "V1-19",
    "src/proto/responder/offer.rs: filled": "V1-87 V1-88 V1-94",
    "src/proto/responder/rebuild.rs: Rebuild": "V1-52 V1-72 V1-73 V1-78 V1-79 V1-80",
    "src/proto/responder/rebuild.rs: padding": "V1-76 V1-77",
    "src/proto/responder/reply.rs: ReplyPlan": "V1-14 V1-45 V1-47 V1-50 V1-51 V1-52 V1-54 V1-56 V1-100 PD-18",
    "src/proto/v1/reply_header.rs: encode": "V1-5 V1-8 V1-10 V1-11 V1-88 V1-98",
    "src/proto/responder/reply/parts.rs: payload": "V1-96",
    "src/proto/responder/reply/parts.rs: reductions": "V1-53 V1-85 V1-86 V1-98 V1-136 V1-138",
    "src/proto/responder/reply/parts.rs: split": "V1-87",
    "src/server/accept.rs: bind": "V1-132",
    "src/server/accept.rs: open": "PD-1 PD-3 PD-22 PD-28 V1-43",
    "src/server/connection.rs: new": "PD-22 PD-34 PD-44 PD-48",
    "src/server/connection.rs: Terms": "PD-19 V1-44",
    "src/server/connection/callback.rs: call_back": "PD-33 BI-2 BI-5 BI-7 BI-19 BI-21 BI-22 BI-23 BI-24 BI-25",
    "src/server/connection/callback.rs: called_back": "BI-4 BI-6 BI-8",
    "src/server/connection/callback.rs: set_callbacks": "BI-8 BI-9 BI-35",
    "src/server/connection/open.rs: open": "PD-13 PD-15 PD-17 PD-22",
    "src/server/connection/read.rs: read": "V1-157",
    "src/server/connection/read.rs: Parts": "V1-73 V1-76",
    "src/server/connection/receive.rs: enqueue": "V1-35 V1-36",
    "src/server/connection/receive.rs: reject": "V1-40 V1-103",
    "src/server/connection/receive.rs: take_call": "V1-109",
    "src/server/connection/reply.rs: reply": "V1-56",
    "src/server/listener.rs: CLASS": "V1-142 V1-155",
    "src/server/refused.rs: RefusedCalls": "V1-118",
    "src/server/size.rs: with": "PD-13 V1-33 V1-42 BI-13 BI-14",
    "src/sunrpc/xprt/callback.rs: set_credits": "BI-8",
    "src/sunrpc/xprt/call.rs: xid": "BI-18",
    "src/sunrpc/xprt/callback.rs: xid": "BI-18 BI-21",
    "src/sunrpc/xprt/callback/ops.rs: connect": "BI-17",
    "src/sunrpc/xprt/callback/ops.rs: create": "BI-15",
    "src/verbs/rw/transfer.rs: Memory": "V1-124",
    "src/verbs/send_queue.rs: post_with": "V1-150 PD-23",
    "src/proto/neutral.rs: Kind": "XC-3 XC-5 XC-6 XC-7 XC-8",
    "src/proto/v2/exchange/message.rs: Message": "XC-41 XC-44 XC-85",
    "src/server/connection/characteristics.rs: take_operation": "XC-78 XC-79 XC-102",
    "src/client/connection/characteristics.rs: begin": "XC-80",
    "src/server/connection/characteristics.rs: is_deaf": "XC-83",
    "src/link/sizes.rs: adapt": "XC-91 XC-92",
    "src/verbs/qp/exchange.rs: exchange": "XC-68 XC-70 XC-90",
    "src/proto/v2/characteristics.rs: TABLE": "XC-21 XC-26 XC-68 XC-71 XC-77 XC-81 XC-82",
    "src/proto/v2/characteristics.rs: Set": "XC-2 XC-4 XC-14 XC-20",
    "src/proto/v2/encode.rs: RpcHeader": "V2-31 V2-35 V2-7",
    "src/proto/v2/encode.rs: encode_error": "V2-9 V2-36 V2-49",
    "src/proto/v2/encode.rs: encode_null_call": "V2-1 V2-3 V2-4 V2-5",
    "src/proto/v2/header.rs: decode": "V2-29 V2-54 V2-58",
    "src/proto/v2/operations.rs: Operation": "XC-28 XC-58 XC-62 XC-63",
    "src/proto/v2/operations.rs: Code": "V2-42 XC-34 XC-36",
    "src/proto/v2/operations.rs: Response": "XC-50 XC-51 XC-52",
    "src/proto/v2/optional.rs: Outgoing": "XC-37 XC-39 XC-53 XC-98",
    "src/proto/v2/receive.rs: receive": "V2-34 V2-39 V2-52 XC-1 XC-30 XC-46",
    "src/proto/v2/check.rs: check": "V2-41",
}

# Requirements whose loss no test can show, and the reason.
UNTESTABLE = {
    "V1-57": (
        "a client has no work request that reads or writes a peer's memory, and a server puts no handle of its own into a "
        "header, by the arguments of their functions"
    ),
    "V1-67": "a call without them cannot be posted: the plan, the buffer and the credit are arguments of the post",
    "V1-81": "the list of registrations moves into the call when that is posted, and out of it with the reply, by its type",
    "V1-115": "no function encodes these types",
    "V1-124": "memory that is not mapped cannot be named in a work request, by its type",
}

# Requirements that wait for their test.
OPEN = ""

# Requirements of version 2 that codec and decisions alone cannot show.
LATER: dict[str, str] = {}

# Requirements that do not concern the transport, or that it cannot meet.
UPPER = "the upper layer's"
UNTOLD = (
    "known to the upper layer alone: sunrpc does not say which arguments are eligible, nor ask which came in chunks"
)
UNUSED = "optional, and not used"
REVIEW = "a rule for those who write the code or configure the network"
APART = {
    UPPER: "V1-58 V1-60 V1-61 V1-62 V1-63 V1-140 V1-156",
    UNTOLD: "V1-64 V1-65",
    UNUSED: "V1-6 V1-13 V1-22 V1-49 V1-75 V1-147 V1-148 V1-154 PD-45 XC-84",
    REVIEW: "PD-51 V1-130 V1-131 V1-135 V1-144 V1-145 V1-146 BI-33 V2-27 V2-55 V2-57 V2-60",
}
