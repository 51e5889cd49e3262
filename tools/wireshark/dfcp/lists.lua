-- Options and handshake parameters, and how lists of type, length and value are read.

local fields, reading = ...
-- Wireshark runs every file of a directory of plugins; this one is for dfcp.lua alone.
if not reading then return end

local F, FEATURES, PATTERNS = fields.F, fields.FEATURES, fields.PATTERNS
local said, malformed, Cursor = reading.said, reading.malformed, reading.Cursor

local function show_number(name)
    return function(value, item)
        local range = value:take(value.stop - value.at)
        if not range then return nil end
        item:add(F[name], range)
        item:append_text(": " .. tostring(range:len() == 8 and range:uint64() or range:uint()))
        return range
    end
end

local function show_ranged(name, least, most)
    return function(value, item)
        local range = show_number(name)(value, item)
        if range and (range:uint() < least or range:uint() > most) then malformed(item, "value out of range") end
    end
end

local function show_features(owner)
    return function(value, item)
        local range = value:take(4)
        if not range then return end
        local features = item:add(F[owner .. ".features"], range)
        for _, name in ipairs(FEATURES) do
            features:add(F[owner .. ".features." .. name], range)
        end
    end
end

-- `form` has kinds: label, least and most bytes of the value, and how it is shown. Returns which ones there are.
local function show_list(cursor, tree, form)
    local seen = {}
    while cursor:has_more() do
        local begin = cursor.at
        local kind = cursor:take(1):uint()
        if kind == 0 and form.has_end then
            local rest = cursor:rest()
            if rest and rest:raw():find("[^\0]") then malformed(tree, "bytes after the end of the options are not zero") end
            return seen
        end
        local head = cursor:take(form.length_bytes, tree, form.label .. " without its length")
        if not head then return seen end
        local length, known = head:uint(), form.kinds[kind]
        local item = tree:add(F[form.name], cursor.tvb(begin, math.min(cursor.at + length, cursor.stop, cursor.tvb:len()) - begin))
        item:append_text(" " .. kind .. ", " .. (known and known[1] or "unknown"))
        item:add(F[form.name .. ".type"], cursor.tvb(begin, 1))
        item:add(F[form.name .. ".length"], head)
        if length > cursor.stop - cursor.at then
            malformed(item, form.label .. " extends past the end")
            return seen
        end
        if seen[kind] and not (form.may_repeat and form.may_repeat(kind)) then malformed(item, "duplicate " .. form.label) end
        seen[kind] = true
        local value = Cursor.new(cursor.tvb, cursor.at, cursor.at + length)
        value.context = cursor.context
        if not known then
            if kind >= 128 then malformed(item, "unknown critical " .. form.label) end
        elseif length < known[2] or length > known[3] then
            malformed(item, form.label .. " of a wrong length")
        else
            known[4](value, item)
        end
        cursor.at = cursor.at + length
    end
    return seen
end

local OPTIONS = { name = "option", label = "option", length_bytes = 1, has_end = true, kinds = {
    [1] = { "version", 1, 1, show_number("option.version") },
    [2] = { "profile", 1, 1, function(value, item)
        local range = show_number("option.profile")(value, item)
        if range and range:uint() ~= (value.context.is_modern and 1 or 0) then malformed(item, "profile does not agree with M") end
    end },
    [3] = { "code", 1, 1, show_number("option.code") },
    [4] = { "symbol size", 2, 2, show_ranged("option.symbol_size", 1, 1476) },
    [5] = { "block length", 4, 4, show_ranged("option.block_length", 1, 63536) },
    [6] = { "features", 4, 4, show_features("option") },
} }

local PARAMETERS = { name = "handshake", label = "parameter", length_bytes = 2, kinds = {
    [0] = { "padding", 0, 65535, function() end },
    [1] = { "connection id", 4, 4, show_ranged("handshake.connection_id", 1, 0xFFFFFFFF) },
    [2] = { "window", 4, 4, show_number("handshake.window_blocks") },
    [3] = { "receive memory", 8, 8, show_number("handshake.receive_memory_bytes") },
    [4] = { "rate cap", 8, 8, show_number("handshake.rate_max_bps") },
    [5] = { "idle timeout", 4, 4, show_number("handshake.idle_timeout_ms") },
    [16] = { "cookie", 1, 64, function(value, item)
        local range = value:rest()
        if range then item:add(F["handshake.cookie"], range) end
    end },
    [17] = { "ciphers", 1, 64, function(value, item)
        while value:has_more() do item:add(F["handshake.cipher"], value:take(1)) end
    end },
    [18] = { "symbol size", 2, 2, show_number("handshake.symbol_size") },
    [19] = { "echo", 4, 4, show_number("handshake.echo") },
    [20] = { "features", 4, 4, show_features("handshake") },
    [21] = { "bidirectional streams", 4, 4, show_number("handshake.streams_bidirectional") },
    [22] = { "one-way streams", 4, 4, show_number("handshake.streams_one_way") },
    [128] = { "Noise", 1, 65535, function(value, item)
        local pattern = value:take(1)
        if not pattern then return end
        item:add(F["handshake.noise_pattern"], pattern)
        said.notes = said.notes .. " Noise " .. (PATTERNS[pattern:uint()] or pattern:uint())
        local message = value:rest()
        if message then item:add(F["handshake.noise_message"], message) end
    end },
} }

return { show_list = show_list, show_number = show_number, OPTIONS = OPTIONS, PARAMETERS = PARAMETERS }
