-- Reads the bytes of a datagram of which the capture may have a part only, and computes checksums.

local fields = ...
-- Wireshark runs every file of a directory of plugins; this one is for dfcp.lua alone.
if not fields then return end

local F, E = fields.F, fields.E
-- Of the datagram at hand, for the column: what is wrong with it first, and what else it says.
local said = { problem = nil, notes = "" }

local function malformed(item, text, kind)
    item:add_proto_expert_info(kind or E.malformed, text)
    said.problem = said.problem or text
end

local function has(number, mask)
    return bit.band(number, mask) ~= 0
end

-- Bytes at..stop of a datagram. The capture may end before it (a snap length), which is no fault of the datagram.
local Cursor = {}
Cursor.__index = Cursor

function Cursor.new(tvb, at, stop)
    return setmetatable({ tvb = tvb, at = at, stop = stop }, Cursor)
end

function Cursor:has_more()
    return self.at < self.stop and self.at < self.tvb:len()
end

function Cursor:take(size, tree, text)
    if size > self.stop - self.at then
        malformed(tree, text)
        return nil
    end
    if size > self.tvb:len() - self.at then return nil end
    self.at = self.at + size
    return self.tvb(self.at - size, size)
end

function Cursor:rest()
    local size = math.min(self.stop, self.tvb:len()) - self.at
    return size > 0 and self:take(size) or nil
end

-- Adds fields one after the other; false if the bytes end before them.
function Cursor:add_all(tree, layout, text)
    for name, size in layout:gmatch("([%w_.]+)=(%d)") do
        local range = self:take(tonumber(size), tree, text)
        if not range then return false end
        tree:add(F[name], range)
    end
    return true
end

local CRC_TABLE = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = bit.bxor(bit.rshift(crc, 1), has(crc, 1) and 0x82F63B78 or 0)
    end
    CRC_TABLE[byte] = crc
end

local function crc32c(bytes)
    local crc = 0xFFFFFFFF
    for at = 1, #bytes do
        crc = bit.bxor(bit.rshift(crc, 8), CRC_TABLE[bit.band(bit.bxor(crc, bytes:byte(at)), 0xFF)])
    end
    return bit.bnot(crc) % 0x100000000
end

-- The value which the checksum field of a classic segment must have (§7).
local function rfc1071(bytes)
    local sum = 0
    for at = 1, #bytes, 2 do
        -- The field itself is the 15th and 16th byte.
        if at ~= 15 then sum = sum + bytes:byte(at) * 256 + (bytes:byte(at + 1) or 0) end
    end
    while sum > 0xFFFF do
        sum = sum % 0x10000 + math.floor(sum / 0x10000)
    end
    return sum == 0xFFFF and 0xFFFF or 0xFFFF - sum
end

return { said = said, malformed = malformed, has = has, Cursor = Cursor, crc32c = crc32c, rfc1071 = rfc1071 }
