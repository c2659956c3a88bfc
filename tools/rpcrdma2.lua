-- SPDX-License-Identifier: GPL-2.0
--
-- Wireshark dissector for version 2 of RPC-over-RDMA (draft-cel-nfsv4-rpcrdma-version-two-01) with transport
-- characteristics (draft-dnoveck-nfsv4-rpcrdma-xcharext-02); Wireshark itself knows version 1. It takes what InfiniBand,
-- RoCE and iWARP carry, and packets of link type USER0:
--
--   tshark -X lua_script:tools/rpcrdma2.lua -r FILE -Y rpcrdma2 -V

-- The RPC messages inside, and NFS in these.
local RPC = Dissector.get("rpc")

local rpcrdma2 = Proto("rpcrdma2", "RPC-over-RDMA version 2")

local PROCS = { [0] = "RDMA2_MSG", [1] = "RDMA2_NOMSG", [4] = "RDMA2_ERROR", [5] = "RDMA2_OPTIONAL" }
local DIRECTIONS = { [0] = "CALL", [1] = "REPLY" }
local ERRORS = { [1] = "ERR_VERS", [2] = "BAD_HEADER", [3] = "INVAL_OPTION" }
local OPERATIONS = { "ROPT_INITXCH", "ROPT_REQXCH", "ROPT_RESPXCH", "ROPT_UPDXCH" }
local XCHARS = { "XCHAR_RBSIZ", "XCHAR_REQREMINV", "XCHAR_BRS" }
local BOOL = { [0] = "false", [1] = "true" }
local BRS = { [0] = "BKREQSUP_NONE", [1] = "BKREQSUP_INLINE", [2] = "BKREQSUP_GENL" }
-- The values below these are those of the types of xcharids 2 and 3.
local LIMITS = { [2] = 2, [3] = 3 }

local f = {}
local function field(name, make, title, ...)
	f[name] = make("rpcrdma2." .. name, title, ...)
end
field("xid", ProtoField.uint32, "xid", base.HEX)
field("vers", ProtoField.uint32, "Version")
field("credit", ProtoField.uint32, "Credits")
field("proc", ProtoField.uint32, "Type", base.DEC, PROCS)
field("direction", ProtoField.uint32, "Direction", base.DEC, DIRECTIONS)
field("read.position", ProtoField.uint32, "Position")
field("write.segments", ProtoField.uint32, "Segments of Write chunk")
field("reply.segments", ProtoField.uint32, "Segments of Reply chunk")
field("handle", ProtoField.uint32, "Handle", base.HEX)
field("length", ProtoField.uint32, "Length")
field("offset", ProtoField.uint64, "Offset", base.HEX)
field("payload", ProtoField.bytes, "Payload")
field("err", ProtoField.uint32, "Error", base.DEC, ERRORS)
field("err.low", ProtoField.uint32, "Lowest version")
field("err.high", ProtoField.uint32, "Highest version")
field("opttype", ProtoField.uint32, "Operation", base.DEC, OPERATIONS)
field("optinfo", ProtoField.uint32, "Length of rdma_optinfo")
field("xchar", ProtoField.uint32, "Characteristic", base.DEC, XCHARS)
field("rbsiz", ProtoField.uint32, "Receive buffers, bytes")
field("reqreminv", ProtoField.uint32, "Takes remote invalidation", base.DEC, BOOL)
field("brs", ProtoField.uint32, "Reverse calls", base.DEC, BRS)
field("opaque", ProtoField.bytes, "Data of unknown characteristic")
field("nochg", ProtoField.uint32, "Will not change", base.HEX)
field("done", ProtoField.uint32, "Done", base.HEX)
field("rej", ProtoField.uint32, "Rejected", base.HEX)
field("pend", ProtoField.uint32, "Pending", base.HEX)
field("pendclr", ProtoField.uint32, "Request finished", base.DEC, BOOL)
field("trailing", ProtoField.uint32, "Ignored bytes behind the message")
field("note", ProtoField.string, "Note")
rpcrdma2.fields = f

-- A cursor over the words of a message. Reading past the end, or a value that may not be, raises MALFORMED.
local MALFORMED = {}
local Cursor = {}
Cursor.__index = Cursor

local function cursor(tvb, tree, at, stop)
	return setmetatable({ tvb = tvb, tree = tree, at = at, stop = stop }, Cursor)
end

local function malformed()
	error(MALFORMED, 0)
end

function Cursor:left()
	return self.stop - self.at
end

function Cursor:take(bytes)
	if bytes > self:left() then
		malformed()
	end
	-- There is no empty range at the end of a message.
	if bytes == 0 then
		return nil
	end
	local range = self.tvb(self.at, bytes)
	self.at = self.at + bytes
	return range
end

-- Reads a word, and shows it if it has a name.
function Cursor:word(name, tree)
	local range = self:take(4)
	if name then
		(tree or self.tree):add(f[name], range)
	end
	return range:uint()
end

-- The word in front of optional data: is there any?
function Cursor:present()
	local word = self:word()
	if word > 1 then
		malformed()
	end
	return word == 1
end

function Cursor:skip_padding(length)
	self:take(-length % 4)
end

local function segment(c, tree)
	c:word("handle", tree)
	c:word("length", tree)
	tree:add(f["offset"], c:take(8))
end

local function chunk(c, name, title)
	local tree = c.tree:add(rpcrdma2, c.tvb(c.at - 4, 4), title)
	local count = c:word(name, tree)
	if count * 16 > c:left() then
		malformed()
	end
	for _ = 1, count do
		segment(c, tree)
	end
end

-- The three lists; returns true if all are empty.
local function chunk_lists(c)
	local empty = true
	while c:present() do
		local tree = c.tree:add(rpcrdma2, c.tvb(c.at - 4, 4), "Read segment")
		c:word("read.position", tree)
		segment(c, tree)
		empty = false
	end
	while c:present() do
		chunk(c, "write.segments", "Write chunk")
		empty = false
	end
	if c:present() then
		chunk(c, "reply.segments", "Reply chunk")
		empty = false
	end
	return empty
end

local function entry(c)
	local id = c:word("xchar")
	local length = c:word()
	local data = c:take(length)
	c:skip_padding(length)
	if not XCHARS[id] then
		if data then
			c.tree:add(f["opaque"], data)
		end
		return
	end
	if length ~= 4 or data:uint() >= (LIMITS[id] or math.huge) then
		malformed()
	end
	c.tree:add(f[({ "rbsiz", "reqreminv", "brs" })[id]], data)
end

local function set(c)
	for _ = 1, c:word() do
		entry(c)
	end
end

local function subset(c, name)
	local count = c:word()
	if count * 4 > c:left() then
		malformed()
	end
	for _ = 1, count do
		c:word(name)
	end
end

local BODIES = {
	function(c)
		set(c)
		subset(c, "nochg")
	end,
	set,
	function(c)
		subset(c, "done")
		subset(c, "rej")
		subset(c, "pend")
	end,
	function(c)
		entry(c)
		if c:word("pendclr") > 1 then
			malformed()
		end
	end,
}

local function direction(c)
	if c:word("direction") > 1 then
		malformed()
	end
end

-- Each takes a cursor behind the prefix, and returns a note if one is due.
local TYPES = {}

TYPES[0] = function(c)
	direction(c)
	chunk_lists(c)
	if c:left() > 0 then
		c.payload = c:take(c:left())
		c.tree:add(f["payload"], c.payload)
	end
end

TYPES[1] = function(c)
	direction(c)
	if chunk_lists(c) then
		malformed()
	end
end

TYPES[4] = function(c)
	local code = c:word("err")
	if code == 1 then
		c:word("err.low")
		c:word("err.high")
	elseif not ERRORS[code] then
		return "unknown error"
	end
end

TYPES[5] = function(c)
	direction(c)
	local operation = c:word("opttype")
	local length = c:word("optinfo")
	if length + (-length % 4) > c:left() then
		malformed()
	end
	local info = cursor(c.tvb, c.tree, c.at, c.at + length)
	c:take(length)
	c:skip_padding(length)
	if not OPERATIONS[operation] then
		return "unknown operation"
	end
	BODIES[operation](info)
	if info:left() > 0 then
		malformed()
	end
	if c:left() > 0 then
		c.tree:add(f["trailing"], c:left())
	end
end

function rpcrdma2.dissector(tvb, pinfo, tree)
	pinfo.cols.protocol = "RPCRDMA2"
	local c = cursor(tvb, tree:add(rpcrdma2, tvb()), 0, tvb:reported_length_remaining())
	local note
	local ok, problem = pcall(function()
		c:word("xid")
		local version = c:word("vers")
		c:word("credit")
		local code = c:word("proc")
		pinfo.cols.info = PROCS[code] or ("type " .. code)
		-- An error is the same in all versions.
		if version ~= 2 and code ~= 4 then
			note = "another version"
		elseif not TYPES[code] then
			note = "unknown type"
		else
			note = TYPES[code](c)
		end
	end)
	if not ok then
		if problem ~= MALFORMED then
			error(problem, 0)
		end
		note = "malformed"
	end
	if note then
		c.tree:add(f["note"], note):set_generated()
	elseif c.payload then
		-- Data that is in chunks is missing from it, which Wireshark's dissectors may report as an error of theirs.
		pcall(RPC.call, RPC, c.payload:tvb(), pinfo, tree)
	end
	return tvb:len()
end

-- Messages of version 1 are left to Wireshark.
local function heuristic(tvb, pinfo, tree)
	if tvb:len() < 16 or tvb(4, 4):uint() ~= 2 or not TYPES[tvb(12, 4):uint()] then
		return false
	end
	rpcrdma2.dissector(tvb, pinfo, tree)
	return true
end

for _, carrier in ipairs({ "infiniband.payload", "iwarp_ddp_rdmap" }) do
	rpcrdma2:register_heuristic(carrier, heuristic)
end
DissectorTable.get("wtap_encap"):add(wtap.USER0, rpcrdma2)
