#!/usr/bin/env bash
# System calls of the standard transaction, and memory of an idle connection, on this machine.
#
# In: nothing; it builds the release program and the example client. Out: a report on standard output, fit to be kept
# in bench/runs/. Loopback only; ends by itself, and ends what it started. Speed is not measured here: client, backend
# and proxy share the cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target}/release
transactions=${TRANSACTIONS:-4000}
idle=${IDLE:-9000}

cargo build --release --locked --quiet --bin handfast --example transactions
folder=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=first look CA" \
  -keyout "$folder/ca.key" -out "$folder/ca.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
  -keyout "$folder/leaf.key" -out "$folder/leaf.csr" 2>/dev/null
openssl x509 -req -in "$folder/leaf.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial -days 2 \
  -extfile <(echo subjectAltName=DNS:localhost) -out "$folder/leaf.pem" 2>/dev/null
chmod 600 "$folder/leaf.key"
cat >"$folder/handfast.toml" <<TOML
[process]
threads = 1
[access-log]
to = "off"
[admin]
listen = "off"
[[service]]
name = "look"
listen = "127.0.0.1:0"
backend = "127.0.0.1:9000"
certificate = "leaf.pem"
key = "leaf.key"
groups = ["X25519"]
TOML

"$target/examples/transactions" echo 127.0.0.1:9000 &
started+=($!)
"$target/handfast" proxy -c "$folder/handfast.toml" 2>"$folder/talk" &
proxy=$!
started+=("$proxy")
for _ in $(seq 100); do grep -q ready "$folder/talk" && break; sleep 0.05; done
address=$(sed -n 's/.*listening on \([0-9.:]*\) .*/\1/p' "$folder/talk")
run() { "$target/examples/transactions" "$1" "$address" "$folder/ca.pem" "${@:2}"; }
memory() { awk '/^Rss/ { print $2 }' "/proc/$proxy/smaps_rollup"; }

echo "date      $(date -u +%F)"
echo "commit    $(git rev-parse --short HEAD)"
echo "program   $("$target/handfast" --version), $(stat -c %s "$target/handfast") bytes"
echo "kernel    $(uname -sr), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo "work      connect, TLS 1.3 full handshake (ECDSA P-256, X25519), 4 KiB there, 4 KiB back, close_notify, close"
echo
run loop --threads 2 --count 200 >/dev/null
strace -qq -c -f -p "$proxy" -o "$folder/calls" &
tracer=$!
started+=("$tracer")
for _ in $(seq 100); do grep -q "TracerPid:.[1-9]" "/proc/$proxy/status" && break; sleep 0.05; done
run loop --threads 8 --count "$transactions" >/dev/null
kill -INT "$tracer"
wait "$tracer" || true
calls=$(awk 'NR > 2 && $4 ~ /^[0-9]+$/ && $NF != "total" { sum += $4 } END { print sum }' "$folder/calls")
echo "system calls for each of $transactions transactions, 8 clients at once: $(awk "BEGIN { printf \"%.1f\", $calls / $transactions }")"
awk 'NR > 2 && $4 > 100 && $NF != "total" { printf "  %-12s %8s calls\n", $NF, $4 }' "$folder/calls"
echo
before=$(memory)
mkfifo "$folder/hold"
run hold --count "$idle" <"$folder/hold" >"$folder/held" &
started+=($!)
exec 3>"$folder/hold"
for _ in $(seq 1200); do grep -q held "$folder/held" && break; sleep 0.1; done
after=$(memory)
echo "resident memory with $idle idle connections: $before KiB before, $after KiB after:" \
  "$(awk "BEGIN { printf \"%.2f\", ($after - $before) / $idle }") KiB each"
exec 3>&-
