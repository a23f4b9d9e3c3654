#!/usr/bin/env bash
# The exit codes of the measuring commands where no model is needed: 2 for a wrong command line, 3 when nothing can be measured.
#   exit_codes.sh STROBE SOURCE_DIR
set -u
strobe=$1 data=$2/tests/data/wordproblems.jsonl
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0

# expect CODE WORDS ARGUMENT...: the exit code, and words that standard error or output must hold
expect() {
  local code=$1 words=$2 got
  shift 2
  "$strobe" "$@" >"$out/text" 2>&1
  got=$?
  if [[ $got != "$code" ]] || ! grep -qF -- "$words" "$out/text"; then
    echo "strobe $*: exit code $got, wanted $code and '$words':"
    cat "$out/text"
    failed=1
  fi
}

expect 2 "--nothing" eval gsm8k --nothing
expect 2 "--data-path is needed" eval gsm8k
expect 2 "$out/none.jsonl" eval gsm8k --data-path "$out/none.jsonl"
expect 2 "--baseline 92" eval gsm8k --data-path "$data" --baseline 92
expect 2 "--batch-size" bench serve --batch-size x
expect 2 "--data-path $out/none.jsonl" bench serve --dataset jsonl --data-path "$out/none.jsonl" --output-dir "$out"
expect 2 "--page-size" bench serve --base-url http://127.0.0.1:1 --page-size 128
expect 2 "accepted: ci-cpu" suite run nothing
expect 2 "--partition '1/1'" suite run ci-cpu --partition 1/1
expect 2 "--suite-dir $out/none" suite list --suite-dir "$out/none"
expect 3 "http://127.0.0.1:1" eval gsm8k --data-path "$data" --base-url http://127.0.0.1:1 --output-dir "$out"
expect 3 "http://127.0.0.1:1" bench serve --base-url http://127.0.0.1:1 --output-dir "$out"
expect 3 "$out/nowhere" eval gsm8k --data-path "$data" --model-path "$out/nowhere" --output-dir "$out"
if [[ ! -e /proc/driver/nvidia/gpus ]]; then
  expect 3 "unmet: needs 8 GPUs of type B200" suite run nightly-8-gpu-b200 --output-dir "$out"
fi
expect 0 "kimi_k26_nvfp4_dflash" suite list
exit $failed
