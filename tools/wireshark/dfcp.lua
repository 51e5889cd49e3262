-- Dissects DFCP as spec/wire-format.md has it: both profiles, over UDP and over IP. The README beside it says how to install it and
-- how it tells DFCP from other traffic. Sections named below are those of wire-format.md, and fields are named as in spec/vectors.

local dfcp = Proto("dfcp", "Digital Fountain based Communication Protocol")
local dfcp_ip = Proto("dfcp_ip", "DFCP over IP")

local HEADER_BYTES, CRC_BYTES, TAG_BYTES, DATAGRAM_MAX = 24, 4, 16, 1500
local FIN, SYN, RST, FBK, ACK, SEC = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
local U32 = 0x100000000
-- How far the numbers of neighbours in one packet may be from each other.
local STEP_MAX = 64
-- What `dfcp decrypt` writes in the place of a tag behind a payload that it has opened (spec/security.md §6.1).
local OPENED = "DFCP opened\0\0\0\0\0"

-- Files beside this one, in the directory `dfcp`.
local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local function load_part(name, ...)
    return assert(loadfile(here .. "dfcp/" .. name .. ".lua"))(...)
end
local fields = load_part("fields")
local reading = load_part("reading", fields)
local lists = load_part("lists", fields, reading)
local show_report = load_part("report", fields, reading, lists)
local F, E, ACKS = fields.F, fields.E, fields.ACKS
local said, malformed, has, Cursor = reading.said, reading.malformed, reading.has, reading.Cursor
dfcp.fields, dfcp.experts = F, E

-- ---- kinds of segments ----

-- What block ID, S1 and S2 mean in each kind of modern segment (§5). What is not named is sent as 0.
local MODERN = {
    ["SYN"] = { words = { 6, 15 } },
    ["SYNACK"] = { words = { 6, 15 }, s2 = "echo" },
    ["data"] = { words = { 6, 7 }, block = "the symbol's", s1 = "esi", s2 = true },
    ["message"] = { words = { 9, 10 }, block = "the message, or the first of several", s1 = "esi", s2 = true },
    ["FBK"] = { words = { 6, 6 }, s1 = "receive_queue_kib" },
    ["FIN"] = { words = { 6, 7 }, block = "one past the last block" },
    ["FINACK"] = { words = { 6, 7 }, block = "one past the last block", s2 = "proof" },
    ["RST"] = { words = { 6, 6 }, s1 = "rst_reason", s2 = "application_reason" },
    ["keep-alive"] = { words = { 6, 7 } },
    ["ACK of a FIN"] = { words = { 6, 7 }, block = "one past the last block", s1 = "ack", s2 = "proof" },
    ["ACK of a SYNACK"] = { words = { 6, 6 }, s1 = "ack", s2 = "echo" },
    ["path challenge"] = { words = { 6, 6 }, block = "the challenge's upper half", s1 = "ack", s2 = true },
    ["path response"] = { words = { 6, 6 }, block = "the challenge's upper half", s1 = "ack", s2 = true },
    ["reset of a stream"] = { words = { 6, 7 }, block = "one past the last block begun", s1 = "ack", s2 = "application_reason" },
    ["ACK of a reset"] = { words = { 6, 7 }, s1 = "ack", s2 = "useful_datagrams" },
    ["stop sending"] = { words = { 6, 7 }, s1 = "ack", s2 = "application_reason" },
    ["path probe"] = { words = { 6, 6 }, s1 = "ack" },
    ["ACK of a path probe"] = { words = { 6, 6 }, s1 = "ack", s2 = "echo" },
    ["gone"] = { words = { 6, 7 }, s1 = "ack" },
    ["session query"] = { words = { 6, 6 }, block = "the connection id of the one who asks", s1 = "ack" },
    ["reset ticket"] = { words = { 6, 6 }, s1 = "ack" },
    ["ACK of a reset ticket"] = { words = { 6, 6 }, s1 = "ack" },
    ["ACK with a Noise message"] = { words = { 6, 6 } },
}
local BY_FLAGS = { [0] = "data", [FIN] = "FIN", [SYN] = "SYN", [RST] = "RST", [SYN + ACK] = "SYNACK", [FIN + ACK] = "FINACK" }

local function kind_of(h)
    local flags = bit.band(h.flags, 0x1F)
    if not h.is_modern then
        if h.flags ~= ACK then return BY_FLAGS[h.flags] end
        return h.s1 + h.s2 + h.s3 == 0 and "ACK of a block or FIN" or "ACK of a SYNACK"
    end
    if h.is_message then return flags == 0 and "message" or nil end
    if flags == FBK then return "FBK" end
    if flags ~= ACK then
        return not (h.is_sealed and has(flags, SYN)) and BY_FLAGS[flags] or nil
    end
    if h.s1 == 0 and not h.is_sealed and h.stop > h.start then return "ACK with a Noise message" end
    -- A peer that has lost the session has lost its keys.
    if ACKS[h.s1] == "session query" and h.is_sealed then return nil end
    return ACKS[h.s1]
end

-- The header of a datagram of so many bytes, or nil where there is none.
local function read_header(tvb, length)
    if tvb:len() < HEADER_BYTES then return nil end
    local control = tvb(12, 2):uint()
    local h = {
        tvb = tvb, length = length, is_whole = tvb:len() == length, id = tvb(0, 4):uint(), block = tvb(4, 4):uint(),
        s1 = tvb(8, 4):uint(), words = bit.rshift(control, 12), reserved = bit.band(bit.rshift(control, 6), 0x3F),
        flags = bit.band(control, 0x3F), checksum = tvb(14, 2):uint(), s2 = tvb(16, 4):uint(), s3 = tvb(20, 4):uint(),
    }
    h.start, h.epoch = h.words * 4, h.reserved % 4
    h.is_modern, h.is_message = h.reserved >= 32, bit.band(h.reserved, 0x30) == 0x30
    h.is_reserved_right = h.reserved == 0 or h.is_modern and not has(h.reserved, 0x0C)
    h.is_sealed = h.is_modern and has(h.flags, SEC)
    h.is_opened = h.is_sealed and h.is_whole and length >= HEADER_BYTES + TAG_BYTES and tvb:raw(length - TAG_BYTES, TAG_BYTES) == OPENED
    h.stop = h.length - (h.is_sealed and TAG_BYTES or h.is_modern and CRC_BYTES or 0)
    h.kind = kind_of(h)
    h.means = h.is_modern and h.kind and MODERN[h.kind] or { words = { 6, 15 } }
    h.is_offset_right = h.words >= h.means.words[1] and h.words <= h.means.words[2] and h.start <= h.stop
    return h
end

-- Whether checksum or CRC is right; nil if the capture has not all of it.
local function is_intact(h)
    if not h.is_whole or h.is_sealed then return nil end
    if not h.is_modern then return h.checksum == reading.rfc1071(h.tvb:raw(0, h.length)) end
    return h.length >= HEADER_BYTES + CRC_BYTES and h.tvb(h.stop, CRC_BYTES):uint() == reading.crc32c(h.tvb:raw(0, h.stop))
end

-- What S2 says of a block or a message (§5).
local function shape(s2)
    return { k = bit.rshift(s2, 24) + 1, length = bit.band(bit.rshift(s2, 5), 0x7FFFF), n = bit.band(bit.rshift(s2, 2), 3) + 1, i = bit.band(s2, 3) }
end

-- Whether a payload of so many bytes is a symbol of such a block, or the part of one, with or without a secret of four bytes.
local function fits(s2, bytes)
    local block = shape(s2)
    for _, secret in ipairs({ 0, 4 }) do
        local symbol = math.ceil(block.length / block.k) + secret
        local part = math.ceil(symbol / block.n)
        if bytes == math.max(0, math.min(part, symbol - block.i * part)) then return true end
    end
    return false
end

local function is_of_several(h)
    return h.kind == "message" and h.words == 10
end

-- ---- segments ----

local function show_control(h, tree)
    local control = h.tvb(12, 2)
    tree:add(F.data_offset, control)
    local reserved = tree:add(F.reserved, control)
    for _, name in ipairs({ "profile", "reserved.message", "epoch" }) do
        reserved:add(F[name], control)
    end
    local flags = tree:add(F.flags, control)
    for _, name in ipairs({ "sec", "ack", "fbk", "rst", "syn", "fin" }) do
        flags:add(F["flags." .. name], control)
    end
    -- A longer one of which only the front was captured may be several, see `size_of_each`.
    if h.length > DATAGRAM_MAX and h.is_whole then malformed(tree, "more than 1500 bytes") end
    if not h.is_reserved_right then
        malformed(reserved, "invalid reserved bits")
    elseif not h.kind then
        malformed(flags, "invalid flags, or an ACK with an unknown S1")
    elseif not h.is_offset_right then
        malformed(tree, "invalid data offset " .. h.words)
    end
end

local function show_status(name, item, is_right)
    item:add(F[name .. ".status"], is_right == nil and 2 or is_right and 1 or 0):set_generated()
    if is_right == false then malformed(item, (name == "crc" and "CRC" or name) .. " is wrong", E.integrity) end
end

local function show_block(h, tree)
    local block, is_message = shape(h.s2), h.kind == "message"
    tree:add(F[is_message and "message.k" or "block.k"], h.tvb(16, 1), block.k)
    tree:add(F[is_message and "message.length_bytes" or "block.length_bytes"], h.tvb(16, 4))
    if not is_message then
        tree:add(F["block.end_of_stream"], h.tvb(16, 4))
        tree:add(F["fragment.count"], h.tvb(19, 1), block.n)
        tree:add(F["fragment.index"], h.tvb(19, 1), block.i)
        if block.length == 0 then malformed(tree, "block length is 0") end
        if block.i >= block.n then malformed(tree, "part " .. block.i .. " of " .. block.n .. ", counted from 0") end
    elseif block.length > 262144 or block.k > math.max(1, block.length) or has(h.s2, 0x1F) then
        malformed(tree, "invalid message info in S2")
    end
    -- Of a packet that was cut off, the rest may be further datagrams.
    if h.is_offset_right and h.is_whole and not fits(h.s2, h.stop - h.start) then malformed(tree, "payload length does not fit S2", E.length) end
    said.notes = ("%s K=%u L=%u%s"):format(said.notes, block.k, block.length, block.n > 1 and (" part %u/%u"):format(block.i, block.n) or "")
end

local function show_header(h, tree)
    local tvb, means = h.tvb, h.means
    if h.is_modern and h.kind ~= "SYN" then
        tree:add(F.connection_id, tvb(0, 4))
    else
        tree:add(F.source_port, tvb(0, 2))
        tree:add(F.destination_port, tvb(2, 2))
    end
    local block = tree:add(F.block_id, tvb(4, 4))
    if means.block then block:append_text(" (" .. means.block .. ")") end
    local s1 = tree:add(F.s1, tvb(8, 4))
    if means.s1 then s1:add(F[means.s1], tvb(8, 4)) end
    show_control(h, tree)
    local checksum = tree:add(F.checksum, tvb(14, 2))
    if not h.is_modern then
        show_status("checksum", checksum, is_intact(h))
    elseif h.checksum ~= 0 then
        malformed(checksum, "checksum of a modern segment is not zero")
    end
    local s2 = tree:add(F.s2, tvb(16, 4))
    if means.block == "the challenge's upper half" then
        s2:add(F.challenge, tvb(16, 4), UInt64.new(h.s2, h.block))
        said.notes = ("%s 0x%08x%08x"):format(said.notes, h.block, h.s2)
    elseif h.kind == "data" and h.is_modern or h.kind == "message" and not is_of_several(h) then
        show_block(h, s2)
    elseif type(means.s2) == "string" then
        s2:add(F[means.s2], tvb(16, 4))
    end
    local s3 = tree:add(F.s3, tvb(20, 4))
    if h.is_modern then s3:add(F.datagram_number, tvb(20, 4)) end
end

local function show_stream_id(cursor, tree)
    local id = cursor:take(4)
    if not id then return end
    local item = tree:add(F.stream, id)
    for _, name in ipairs({ "opener", "one_way", "index" }) do
        item:add(F["stream." .. name], id)
    end
    if id:uint() == 0 then malformed(item, "stream id is 0") end
    said.notes = said.notes .. " stream " .. id:uint()
end

-- The words behind the header of a message segment (§5).
local function show_message(h, cursor, tree)
    local from = cursor.at
    if not cursor:add_all(tree, "message.clock_us=4;message.age_us=4;message.lifetime_us=4") then return end
    local age, lifetime = h.tvb(from + 4, 4):uint(), h.tvb(from + 8, 4):uint()
    if age >= lifetime and lifetime ~= U32 - 1 then malformed(tree, "message is as old as its lifetime") end
    if h.s1 >= 1024 then malformed(tree, "ESI above 1023") end
    if not is_of_several(h) or not cursor:add_all(tree, "message.count=2;message.source_symbols=2") then return end
    local count, symbols = h.tvb(from + 12, 2):uint(), h.tvb(from + 14, 2):uint()
    if h.s2 ~= 0 or count < 2 or h.block + count > U32 or symbols < count or symbols > 256 or h.s1 < symbols then
        malformed(tree, "invalid repair symbol of several messages")
    end
    said.notes = ("%s of %u messages"):format(said.notes, count)
end

-- What a handshake without Noise must have (§8); a SYNACK may ask for a cookie alone.
local function check_mandatory(h, seen, tree)
    if seen[128] or seen[16] or not h.is_whole or h.kind == "ACK with a Noise message" then return end
    for _, kind in ipairs({ 1, 2, 3, 4, 5, 21, 22 }) do
        if not seen[kind] then return malformed(tree, "parameter " .. kind .. " is missing") end
    end
end

local function show_payload(h, cursor, tree)
    if h.is_sealed and not h.is_opened then
        local ciphertext = cursor:rest()
        if ciphertext then tree:add(F.ciphertext, ciphertext) end
        return
    end
    if h.is_modern and (h.kind == "SYN" or h.kind == "SYNACK" or h.kind == "ACK with a Noise message") then
        return check_mandatory(h, lists.show_list(cursor, tree, lists.PARAMETERS), tree)
    elseif h.kind == "FBK" then
        return show_report(cursor, tree)
    end
    local payload = cursor:rest()
    if not payload then return end
    local item = tree:add(F.payload, payload)
    if h.kind == "path probe" and payload:raw():find("[^\0]") then malformed(item, "padding of a path probe is not zero") end
    if h.kind == "ACK of a path probe" then malformed(item, "payload in an ACK of a path probe") end
end

local function show_segment(h, tree)
    show_header(h, tree)
    if h.is_offset_right and h.kind then
        local cursor = Cursor.new(h.tvb, HEADER_BYTES, h.start)
        if h.kind == "message" then
            show_message(h, cursor, tree)
        elseif not h.is_modern or h.means.words[2] == 15 then
            cursor.context = { is_modern = h.is_modern }
            lists.show_list(cursor, tree, lists.OPTIONS)
        elseif h.words == 7 then
            show_stream_id(cursor, tree)
        end
        show_payload(h, Cursor.new(h.tvb, h.start, h.stop), tree)
    end
    if h.is_modern and h.stop >= HEADER_BYTES and h.is_whole then
        local trailer = tree:add(F[h.is_opened and "opened" or h.is_sealed and "tag" or "crc"], h.tvb(h.stop, h.length - h.stop))
        if not h.is_sealed then show_status("crc", trailer, is_intact(h)) end
    end
end

local function summary(h)
    local head = h.kind or "unknown segment"
    if h.is_sealed then head = head .. (h.is_opened and " (decrypted)" or " (encrypted)") end
    if h.is_modern and h.kind ~= "SYN" then
        head = ("%s id=0x%08x"):format(head, h.id)
    else
        head = ("%s %u → %u"):format(head, bit.rshift(h.id, 16), bit.band(h.id, 0xFFFF))
    end
    if h.is_modern then head = head .. " #" .. h.s3 end
    if h.means.block ~= nil or not h.is_modern then head = head .. " block " .. h.block end
    if h.means.s1 == "esi" then head = head .. " ESI " .. h.s1 end
    return ("%s%s Len=%d"):format(head, said.notes, math.max(0, h.stop - h.start))
end

-- ---- several datagrams in a packet ----

-- Whether a datagram of the same batch as `first` begins here, the one before which has the number `before`. A sender skips numbers, and
-- a receiver's batch lacks what was lost.
local function follows(first, tvb, before)
    local control = tvb(12, 2):uint()
    if tvb(0, 4):uint() ~= first.id then return false end
    if first.is_modern then
        local step = (tvb(20, 4):uint() - before) % U32
        return has(control, 0x0800) and step ~= 0 and (step <= STEP_MAX or step >= U32 - STEP_MAX)
    end
    return not has(control, 0x0FC0) and bit.rshift(control, 12) == first.words
end

-- Hosts give their interface several datagrams at once (UDP segmentation offload; GRO where they arrive), and captures made there show
-- them as one packet. All but the last have the same length, all go to the same connection, and their numbers are near each other. Returns
-- that length, or nil if there is one datagram, or the header of the second was not captured.
local function size_of_each(tvb)
    local length, captured = tvb:reported_len(), tvb:len()
    local first = read_header(tvb, length)
    if not first then return nil end
    local bytes, id, size = tvb:raw(), tvb:raw(0, 4), HEADER_BYTES
    while true do
        size = bytes:find(id, size + 1, true)
        if not size then return nil end
        size = size - 1
        if size > DATAGRAM_MAX or size + HEADER_BYTES > captured then return nil end
        local fits_all, at, before = true, size, first.s3
        while fits_all and at < length do
            fits_all = length - at >= HEADER_BYTES
            if fits_all and at + HEADER_BYTES <= captured then
                fits_all = follows(first, tvb(at, HEADER_BYTES):tvb(), before)
                before = tvb(at + 20, 4):uint()
            end
            at = at + size
        end
        if fits_all then return size end
        size = size + 1
    end
end

-- The datagrams of a packet, as far as they were captured, and how long they are.
local function split(tvb)
    local size, list = size_of_each(tvb), {}
    if not size then return { { tvb = tvb, length = tvb:reported_len() } } end
    for at = 0, tvb:len() - 1, size do
        list[#list + 1] = { tvb = tvb(at, math.min(size, tvb:len() - at)):tvb(), length = math.min(size, tvb:reported_len() - at) }
    end
    return list
end

-- Shows one datagram, and returns its line for the column.
local function show_datagram(tvb, length, tree)
    said.problem, said.notes = nil, ""
    local root = tree:add(dfcp, tvb())
    local h = read_header(tvb, length)
    local text = "cut off by the capture"
    if h then
        root:add(F.kind, h.kind or "unknown"):set_generated()
        root:add(F.encrypted, h.is_sealed and not h.is_opened):set_generated()
        root:add(F.decrypted, h.is_opened):set_generated()
        show_segment(h, root)
        text = summary(h)
    elseif length < HEADER_BYTES then
        malformed(root, "shorter than a header")
        text = length .. " bytes"
    end
    if length > DATAGRAM_MAX and tvb:len() < length then text = text .. " (several datagrams, cut off by the capture)" end
    root:append_text(", " .. text)
    return said.problem and ("[%s] %s"):format(said.problem, text) or text
end

function dfcp.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "DFCP"
    local lines = {}
    for _, datagram in ipairs(split(tvb)) do
        lines[#lines + 1] = show_datagram(datagram.tvb, datagram.length, tree)
    end
    pinfo.cols.info = lines[1] .. (#lines > 1 and (" (and %u more datagrams)"):format(#lines - 1) or "")
    return tvb:len()
end

-- ---- which datagrams are DFCP ----

-- What a modern segment shows without its key: fields sent as 0, the epoch, a stream id, and a payload as long as S2 says.
local function is_plausible_modern(h)
    local means, bytes = h.means, h.stop - h.start
    if not means.block and h.block ~= 0 or not means.s1 and h.s1 ~= 0 or not means.s2 and h.s2 ~= 0 then return false end
    if h.epoch ~= (h.is_sealed and bit.band(bit.rshift(h.s3, 28), 3) or 0) then return false end
    if h.words == 7 and (h.tvb:len() < 28 or h.tvb(24, 4):uint() == 0) then return false end
    if h.kind == "FBK" then return bytes >= 52 end
    if h.kind == "data" then return shape(h.s2).length > 0 and fits(h.s2, bytes) end
    if h.kind ~= "message" then return true end
    if is_of_several(h) then return h.s1 < 1024 and h.s2 == 0 end
    return h.s1 < 1024 and fits(h.s2, bytes)
end

local function is_plausible_classic(h)
    local has_state, has_none = h.s1 >= 2 and h.s2 >= 8 and h.s3 >= 16, h.s1 + h.s2 + h.s3 == 0
    if h.checksum == 0 then return false end
    if h.kind == "data" then return has_state and h.stop > h.start and (h.words == 6 or h.words == 8) end
    if h.stop > h.start then return false end
    if has(h.flags, SYN) or h.kind == "ACK of a SYNACK" then return h.block == 0 and has_state end
    return has_none or h.flags == RST and h.block == 0
end

-- The header, if the datagram is taken for DFCP: without CRC or checksum, because it is sealed or cut off, by what it shows. Of a classic
-- one that is too little, except in packets of an IP protocol number for experiments.
local function recognise(tvb, is_over_ip)
    local first = split(tvb)[1]
    local h = read_header(first.tvb, first.length)
    if not h or h.length > DATAGRAM_MAX or not h.is_reserved_right or not h.kind or not h.is_offset_right then return nil end
    local intact = is_intact(h)
    if not h.is_modern then
        return is_plausible_classic(h) and (intact or intact == nil and is_over_ip) and h or nil
    end
    if h.checksum ~= 0 or h.id == 0 or intact == false then return nil end
    return (intact or is_plausible_modern(h)) and h or nil
end

dfcp:register_heuristic("udp", function(tvb, pinfo, tree)
    local h = recognise(tvb, false)
    if not h then return false end
    -- A datagram between the same addresses is DFCP from here on, if it is malformed, too.
    if is_intact(h) then pinfo.conversation = dfcp end
    dfcp.dissector(tvb, pinfo, tree)
    return true
end)

function dfcp_ip.dissector(tvb, pinfo, tree)
    return recognise(tvb, true) and dfcp.dissector(tvb, pinfo, tree) or 0
end

for _, number in ipairs({ 253, 254 }) do
    DissectorTable.get("ip.proto"):add(number, dfcp_ip)
end
for _, name in ipairs({ "udp.port", "ip.proto" }) do
    DissectorTable.get(name):add_for_decode_as(dfcp)
end
