# The error of each flow and of their sum against the fair share of plan D10, mean / standard deviation, %: by the packets which blocks need,
# as they come, by whole blocks, and by all packets that come. Of a trace in bins of one second:
#   awk -F, -v flows=10 -f docs/measurements/adaptation_error.awk lab-trace/flows.csv
# A block of 63 536 bytes needs 47 packets, and of 1000 Mbit/s 923.757 are left for applications.
function off(goodput, fair) { return 100 * (goodput > fair ? goodput / fair - 1 : 1 - goodput / fair) }
function add(name, error) { count[name]++; total[name] += error; squares[name] += error * error }
function told(name,   mean) {
  mean = total[name] / count[name]
  return sprintf("%.1f / %.1f", mean, sqrt(squares[name] / count[name] - mean * mean))
}
NR > 1 && $1 > 20 {
  t = $1 - 1
  half = (t >= 100 && t < 200) || (t >= 300 && t < 340) || (t >= 380 && t < 420) || (t >= 460 && t < 500)
  fair[$1] = 923.757 / (half ? 2 : 1)
  packets = ($13 - $14) * 63536 / 47 * 8 / 1e6
  all = $13 * 63536 / 47 * 8 / 1e6
  packets_sum[$1] += packets; blocks_sum[$1] += $3; all_sum[$1] += all
  add("packets", off(packets * flows, fair[$1])); add("blocks", off($3 * flows, fair[$1]))
  add("all", off(all * flows, fair[$1]))
}
END {
  for (t in fair) { add("packets together", off(packets_sum[t], fair[t])); add("blocks together", off(blocks_sum[t], fair[t])); add("all together", off(all_sum[t], fair[t])) }
  print "needed packets: each " told("packets") ", together " told("packets together")
  print "whole blocks: each " told("blocks") ", together " told("blocks together")
  print "all packets: each " told("all") ", together " told("all together")
}
