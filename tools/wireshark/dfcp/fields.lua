-- Fields, named as in spec/vectors, and what can be wrong. dfcp.lua registers them: Wireshark runs every file of a directory of plugins,
-- this one too.

local FIN, SYN, RST, FBK, ACK, SEC = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
local FEATURES = { "messages", "fragments", "path_probes", "arrival_clock", "ecn_counts", "loss_runs" }
local STATUS = { [0] = "bad", [1] = "good", [2] = "unverified" }
local PROFILES = { [0] = "classic", [1] = "modern" }
local CODES = { [0] = "classic Raptor", [1] = "random linear over GF(256)", [2] = "reserved for an FFT-based code" }
local CIPHERS = { [1] = "AES-128-GCM", [2] = "AES-256-GCM", [3] = "ChaCha20-Poly1305" }
local PATTERNS = { [1] = "XX", [2] = "IK", [3] = "NNpsk0" }
local REASONS = { [0] = "none told", [1] = "key not admitted", [2] = "first message not read", [3] = "the application's, in S2", [4] = "path too narrow", [5] = "session unknown" }
local ACKS = {
    [0] = "keep-alive", "ACK of a FIN", "ACK of a SYNACK", "path challenge", "path response", "reset of a stream", "ACK of a reset",
    "stop sending", "path probe", "ACK of a path probe", "gone", "session query", "reset ticket", "ACK of a reset ticket",
}

local F = {}
local function define(type, name, label, ...)
    F[name] = ProtoField[type]("dfcp." .. name, label, ...)
end
local function define_numbers(type, prefix, list)
    for name, label in list:gmatch("([%w_.]+)=([^;]+)") do
        define(type, prefix .. name, label, base.DEC)
    end
end

define("string", "kind", "Kind")
define("bool", "encrypted", "Encrypted")
define("bool", "decrypted", "Decrypted")
define_numbers("uint16", "", "source_port=Source port;destination_port=Destination port")
define("uint32", "connection_id", "Connection id", base.HEX)
define_numbers("uint32", "", "block_id=Block ID;echo=Datagram number which is answered;esi=Encoding symbol id (ESI)")
define_numbers("uint32", "", "receive_queue_kib=Receive queue (KiB);useful_datagrams=Data datagrams not in vain")
define_numbers("uint32", "", "application_reason=Reason of the application;datagram_number=Datagram number")
for _, name in ipairs({ "s1", "s2", "s3", "proof" }) do
    define("uint32", name, name:gsub("^%l", string.upper), base.HEX)
end
define("uint32", "ack", "ACK", base.DEC, ACKS)
define("uint32", "rst_reason", "Reason", base.DEC, REASONS)
define("uint64", "challenge", "Path challenge", base.HEX)
define("uint16", "data_offset", "Data offset (words)", base.DEC, nil, 0xF000)
define("uint16", "reserved", "Reserved", base.HEX, nil, 0x0FC0)
define("uint16", "profile", "Profile (M)", base.DEC, PROFILES, 0x0800)
define("bool", "reserved.message", "Message segment (G)", 16, nil, 0x0400)
define("uint16", "epoch", "Key epoch", base.DEC, nil, 0x00C0)
define("uint16", "flags", "Flags", base.HEX, nil, 0x003F)
for name, mask in pairs({ fin = FIN, syn = SYN, rst = RST, fbk = FBK, ack = ACK, sec = SEC }) do
    define("bool", "flags." .. name, name:upper(), 16, nil, mask)
end
define("uint16", "checksum", "Checksum", base.HEX)
define("uint8", "checksum.status", "Checksum status", base.DEC, STATUS)
define("uint32", "crc", "CRC-32C", base.HEX)
define("uint8", "crc.status", "CRC status", base.DEC, STATUS)
define("bytes", "payload", "Payload")
define("bytes", "ciphertext", "Ciphertext")
define("bytes", "tag", "Authentication tag")
define("bytes", "opened", "Mark of dfcp decrypt, instead of the tag")

define("uint32", "stream", "Stream", base.DEC)
define("uint32", "stream.opener", "Opener", base.DEC, { [0] = "side which sent the SYN", [1] = "other side" }, 0x80000000)
define("bool", "stream.one_way", "One-way", 32, nil, 0x40000000)
define("uint32", "stream.index", "Index", base.DEC, nil, 0x3FFFFFFF)
define("uint32", "block.k", "Source symbols (K)", base.DEC)
define("uint32", "block.length_bytes", "Block length (bytes)", base.DEC, nil, 0x00FFFFE0)
define("bool", "block.end_of_stream", "End of the half of the stream", 32, nil, 0x00000010)
define_numbers("uint8", "fragment.", "count=Parts of the symbol (n);index=Part (i)")
define("uint32", "message.length_bytes", "Message length (bytes)", base.DEC, nil, 0x00FFFFE0)
define_numbers("uint32", "message.", "k=Source symbols (K);clock_us=Clock (µs);age_us=Age (µs);lifetime_us=Lifetime (µs)")
define_numbers("uint16", "message.", "count=Messages;source_symbols=Source symbols of all messages")

for name, label in pairs({ option = "Option", handshake = "Parameter", record = "Record", list = "Entry", mark = "Mark", run = "Loss run" }) do
    define(name == "list" and "string" or "none", name, label)
end
define_numbers("uint8", "", "option.type=Kind;option.length=Length;handshake.type=Type;record.type=Type")
define_numbers("uint16", "", "handshake.length=Length;record.length=Length;option.symbol_size=Symbol size (bytes)")
define("uint8", "option.version", "Version", base.DEC)
define("uint8", "option.profile", "Profile", base.DEC, PROFILES)
define("uint8", "option.code", "Code", base.DEC, CODES)
define("uint32", "option.block_length", "Block length (bytes)", base.DEC)
for _, owner in ipairs({ "option", "handshake" }) do
    define("uint32", owner .. ".features", "Features", base.HEX)
    for at, name in ipairs(FEATURES) do
        define("bool", owner .. ".features." .. name, name:gsub("_", " "), 32, nil, 2 ^ (at - 1))
    end
end
define("uint32", "handshake.connection_id", "Connection id", base.HEX)
define_numbers("uint32", "handshake.", "window_blocks=Window (blocks);idle_timeout_ms=Idle timeout (ms);echo=Echo of the SYN's datagram number")
define_numbers("uint32", "handshake.", "streams_bidirectional=Bidirectional streams;streams_one_way=One-way streams")
define_numbers("uint64", "handshake.", "receive_memory_bytes=Receive memory (bytes);rate_max_bps=Rate cap (bit/s)")
define_numbers("uint16", "handshake.", "symbol_size=Symbol size (bytes)")
define("uint8", "handshake.cipher", "Cipher", base.DEC, CIPHERS)
define("uint8", "handshake.noise_pattern", "Noise pattern", base.DEC, PATTERNS)
define("bytes", "handshake.noise_message", "Noise message")
define("bytes", "handshake.cookie", "Cookie")

define_numbers("uint32", "report.", "highest_datagram=Highest datagram;datagrams_received=Datagrams received;hold_us=Hold (µs)")
define_numbers("uint32", "report.", "memory_kib=Memory (KiB);streams_bidirectional=Bidirectional streams;streams_one_way=One-way streams")
define_numbers("uint32", "report.", "wasted_dependent=Dependent;wasted_late=Late;wasted_refused=Refused")
define_numbers("uint64", "report.", "bytes_received=Bytes received;arrival_rate_bps=Arrival rate (bit/s)")
define_numbers("uint32", "record.", "clock_us=Arrival clock (µs);ce=CE;ect=ECT(0) or ECT(1);first_id=First message;stream=Stream")
define_numbers("uint32", "record.", "bidirectional=First unseen bidirectional stream;one_way=First unseen one-way stream")
define_numbers("uint32", "record.", "next_needed=Next block needed;blocks_read=Blocks read;kib_read=KiB read;gap=Gap;lost=Not arrived")
define_numbers("uint24", "record.", "mark_us=Time back (µs);mark_numbers=Numbers back;mark_received=Received back")
define("uint32", "record.proof", "Proof", base.HEX)
define("uint32", "record.proof_cumulative", "Proof, cumulative", base.HEX)
define("uint32", "record.proof_listed", "Proof, listed", base.HEX)

local E = {
    malformed = ProtoExpert.new("dfcp.malformed", "Must be refused", expert.group.MALFORMED, expert.severity.ERROR),
    integrity = ProtoExpert.new("dfcp.integrity", "Checksum or CRC is wrong", expert.group.CHECKSUM, expert.severity.ERROR),
    length = ProtoExpert.new("dfcp.length", "Not a symbol of its block", expert.group.PROTOCOL, expert.severity.WARN),
    discouraged = ProtoExpert.new("dfcp.discouraged", "Should not be sent", expert.group.PROTOCOL, expert.severity.NOTE),
}

return { F = F, E = E, ACKS = ACKS, PATTERNS = PATTERNS, FEATURES = FEATURES }
