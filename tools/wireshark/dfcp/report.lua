-- Feedback reports and their records (wire-format.md §9).

local fields, reading, lists = ...
-- Wireshark runs every file of a directory of plugins; this one is for dfcp.lua alone.
if not lists then return end

local U32 = 0x100000000

local F, E = fields.F, fields.E
local said, malformed, has = reading.said, reading.malformed, reading.has
local show_number, show_list = lists.show_number, lists.show_list

local function add_entry(cursor, item, from, text, of)
    item:add(F.list, cursor.tvb(from, cursor.at - from), text):append_text(of)
end

-- Several blocks or messages of the same state; nil if the entry says more of one.
local function run_of(entry)
    if entry < 0x80 then return nil end
    local count = entry % 0x40 + 1
    return count, (entry < 0xC0 and "complete " or "empty ") .. count
end

local function show_stream(value, item)
    local from = value.at
    local layout = "record.stream=4;record.next_needed=4;record.blocks_read=4;record.kib_read=4;record.proof_cumulative=4;record.proof_listed=4"
    if not value:add_all(item, layout) then return end
    local stream, block = value.tvb(from, 4):uint(), value.tvb(from + 4, 4):uint()
    item:append_text(": " .. stream)
    said.notes = ("%s, stream %u needs block %u"):format(said.notes, stream, block)
    if value.context.streams[stream] then malformed(item, "two records of one stream") end
    value.context.streams[stream] = true
    while value:has_more() do
        from = value.at
        local entry = value:take(1):uint()
        local count, text = run_of(entry)
        if entry == 0 then
            local second = value:take(1, item, "entry 0x00 without its second byte")
            if not second then return end
            text = "open " .. second:uint() + 1
            if second:uint() < 127 then item:add_proto_expert_info(E.discouraged, "entry 0x00 for fewer than 128 symbols") end
        end
        text = text or "open " .. entry
        add_entry(value, item, from, text, " (from block " .. block .. " on)")
        block = block + (count or 1)
    end
end

local function show_marks(value, item)
    local time, numbers, received = 0, 0, 0
    if (value.stop - value.at) % 9 ~= 0 then malformed(item, "incomplete mark") end
    while value:has_more() do
        local from = value.at
        if value.stop - from < 9 or value.tvb:len() - from < 9 then return end
        local mark = item:add(F.mark, value.tvb(from, 9))
        value:add_all(mark, "record.mark_us=3;record.mark_numbers=3;record.mark_received=3")
        local next_time, next_numbers, next_received = value.tvb(from, 3):uint(), value.tvb(from + 3, 3):uint(), value.tvb(from + 6, 3):uint()
        if next_time <= time or next_numbers < numbers or next_received < received then malformed(mark, "marks do not go back in time") end
        time, numbers, received = next_time, next_numbers, next_received
    end
end

-- An integer of RFC 9000 §16 and its bytes. One above 2^53 loses its lowest bits, and is refused anyway.
local function take_integer(value, item)
    if not value:has_more() then
        if value.at >= value.stop then malformed(item, "gap without its loss run") end
        return nil
    end
    local size = ({ [0] = 1, 2, 4, 8 })[bit.rshift(value.tvb(value.at, 1):uint(), 6)]
    local range = value:take(size, item, "truncated loss run")
    if not range then return nil end
    if size == 8 then return bit.band(range(0, 4):uint(), 0x3FFFFFFF) * U32 + range(4, 4):uint(), range end
    return bit.band(range:uint(), ({ 0x3F, 0x3FFF, 0, 0x3FFFFFFF })[size]), range
end

local function show_loss_runs(value, item)
    local runs, sum = 0, 0
    while value:has_more() do
        local from = value.at
        local run = item:add(F.run, value.tvb(from, 1))
        for _, name in ipairs({ "record.gap", "record.lost" }) do
            local number, range = take_integer(value, run)
            if not number then return end
            sum = sum + number
            if number == 0 or sum >= U32 then return malformed(run, "loss run of 0, or sum of 2^32 or more") end
            run:add(F[name], range, number)
        end
        run:set_len(value.at - from)
        runs = runs + 1
    end
    if runs > 32 then malformed(item, "more than 32 loss runs") end
end

-- Numbers of the bits which are set, the most significant bit of the first byte being 0.
local function bits_of(bytes)
    local set = {}
    for at = 1, #bytes do
        for place = 0, 7 do
            if has(bytes:byte(at), bit.rshift(0x80, place)) then set[#set + 1] = (at - 1) * 8 + place end
        end
    end
    return table.concat(set, " ")
end

local function show_messages(value, item)
    local message = value.tvb:len() - value.at >= 4 and value.tvb(value.at, 4):uint()
    if not value:add_all(item, "record.first_id=4;record.proof=4") then return end
    if value.at == value.stop then malformed(item, "record without messages") end
    said.notes = said.notes .. ", messages from " .. message
    while value:has_more() do
        local from = value.at
        local entry = value:take(1):uint()
        local count, text = run_of(entry)
        if not count then
            local symbols = value:take(entry + 1, item, "truncated symbols of a message")
            if not symbols then return end
            if symbols(entry, 1):uint() == 0 then malformed(item, "last byte of symbols is 0") end
            text = "symbols " .. bits_of(symbols:raw())
        end
        add_entry(value, item, from, text, " (from message " .. message .. " on)")
        message = message + (count or 1)
    end
    if message > U32 then malformed(item, "message id above 2^32 - 1") end
end

local function show_layout(layout)
    return function(value, item)
        value:add_all(item, layout)
    end
end

local RECORDS = {
    [3] = { "arrival clock", 4, 4, show_number("record.clock_us") },
    [4] = { "marks", 9, 27, show_marks },
    [5] = { "ECN counts", 8, 8, show_layout("record.ce=4;record.ect=4") },
    [6] = { "loss runs", 0, 65535, show_loss_runs },
    [7] = { "messages", 8, 65535, show_messages },
    [8] = { "unseen", 8, 8, show_layout("record.bidirectional=4;record.one_way=4") },
    [128] = { "stream", 24, 65535, show_stream },
}
local REPORT = "report.highest_datagram=4;report.datagrams_received=4;report.bytes_received=8;report.hold_us=4;report.arrival_rate_bps=8;"
    .. "report.memory_kib=4;report.streams_bidirectional=4;report.streams_one_way=4;report.wasted_dependent=4;report.wasted_late=4;"
    .. "report.wasted_refused=4"

local function show_report(cursor, tree)
    local from = cursor.at
    if not cursor:add_all(tree, REPORT, "report is shorter than its fixed part") then return end
    said.notes = ("%s highest %u, received %u"):format(said.notes, cursor.tvb(from, 4):uint(), cursor.tvb(from + 4, 4):uint())
    cursor.context = { streams = {} }
    local function may_repeat(kind)
        return kind < 3 or kind > 8
    end
    show_list(cursor, tree, { name = "record", label = "record", length_bytes = 2, kinds = RECORDS, may_repeat = may_repeat })
end

return show_report
