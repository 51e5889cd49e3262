#!/usr/bin/env bash
# Makes a real MPEG transport stream of constant rate: moving test picture and tone, coded for low latency.
#   benches/live/make_ts.sh FILE SECONDS
# Needs ffmpeg with libx264.
set -euo pipefail
file=$1
seconds=$2
# live.py plays six of these packets every 4 ms, with a seventh of its own: 6 * 188 * 8 bits / 4 ms, so that the stream's
# clock (PCR) runs at the speed at which it is played.
mux_rate=2256000
# The rest of the rate is audio, tables, PES headers, and the null packets by which the muxer keeps it constant.
video_rate=1800k
exec ffmpeg -nostdin -y -v error \
    -f lavfi -i "testsrc2=size=640x360:rate=25" -f lavfi -i "sine=frequency=440:sample_rate=48000" \
    -t "$seconds" \
    -c:v libx264 -preset ultrafast -tune zerolatency -g 25 -pix_fmt yuv420p \
    -b:v "$video_rate" -maxrate "$video_rate" -bufsize 360k -x264-params nal-hrd=cbr \
    -c:a aac -b:a 96k \
    -f mpegts -muxrate "$mux_rate" "$file"
