#!/usr/bin/env bash
# Exit codes and messages where no model is needed: of the measuring commands 2 for a wrong command line (of the others 1), 3 when
# nothing can be measured.
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
expect 2 "eval without a command: accepted: gsm8k" eval
expect 2 "bench nothing: accepted: serve, kernel, step" bench nothing
expect 1 "srve: accepted: serve, generate, inspect" srve
expect 1 "--prot: there is no such flag; did you mean --port? see strobe serve --help" serve --prot 3000
expect 1 "--prot: there is no such flag; did you mean --port?" serve --prot=3000
expect 1 "--n: there is no such flag; see strobe serve --help" serve --n
expect 1 "'extra' belongs to no flag; see strobe serve --help" serve extra
expect 1 "--port x: accepted: a whole number" serve --port x
expect 1 "--mem-fraction-static y: accepted: a number" serve --mem-fraction-static y
expect 2 "--data-path is needed" eval gsm8k
expect 2 "$out/none.jsonl" eval gsm8k --data-path "$out/none.jsonl"
expect 2 "--baseline 92" eval gsm8k --data-path "$data" --baseline 92
expect 2 "--batch-size" bench serve --batch-size x
expect 2 "--data-path $out/none.jsonl" bench serve --dataset jsonl --data-path "$out/none.jsonl" --output-dir "$out"
expect 2 "--page-size" bench serve --base-url http://127.0.0.1:1 --page-size 128
expect 2 "--model x: accepted: all, pocket-k2" bench kernel --model x
expect 2 "--filter nothing: no case" bench kernel --filter nothing
expect 2 "--device gpu: accepted: cpu, cuda" bench kernel --device gpu
expect 2 "--cpu-isa mmx: accepted: auto, ref, portable" bench kernel --cpu-isa mmx
expect 2 "--seconds -1: accepted" bench kernel --seconds -1
expect 2 "--steps 0: accepted" bench step --steps 0
expect 2 "--page-size 0: accepted" bench step --page-size 0
expect 3 "--context-tokens 9000" bench step --context-tokens 9000
expect 3 "--batch-size 4 of" bench step --batch-size 4 --max-total-tokens 1024
expect 2 "accepted: ci-cpu" suite run nothing
expect 2 "--partition '1/1'" suite run ci-cpu --partition 1/1
expect 0 "none of its tests is in this partition" suite run ci-cpu --partition 1/2 --output-dir "$out"
expect 2 "--suite-dir $out/none" suite list --suite-dir "$out/none"
expect 3 "http://127.0.0.1:1" eval gsm8k --data-path "$data" --base-url http://127.0.0.1:1 --output-dir "$out"
expect 3 "http://127.0.0.1:1" bench serve --base-url http://127.0.0.1:1 --output-dir "$out"
expect 3 "$out/nowhere" eval gsm8k --data-path "$data" --model-path "$out/nowhere" --output-dir "$out"
if [[ ! -e /proc/driver/nvidia/gpus ]]; then
  expect 3 "unmet: needs 8 GPUs of type B200" suite run nightly-8-gpu-b200 --output-dir "$out"
fi
expect 0 "kimi_k26_nvfp4_dflash" suite list

# An address that cannot be had is told before a model is loaded (203.0.113.0/24 is nobody's).
expect 2 "cannot listen on 203.0.113.1 port 30000" serve --host 203.0.113.1
! grep -qF "assembled" "$out/text" || { echo "serve: the model was loaded for an address that cannot be had"; failed=1; }

# The last line of an answer is whole before the counts are told.
expect 0 "1/1 answers, 4 tokens" generate --prompt The --max-new-tokens 4 --max-total-tokens 1024 --log-level warning
grep -q '^1/1 answers' "$out/text" || { echo "generate: no line of its own for the counts:"; cat "$out/text"; failed=1; }

# The benchmarks of kernels and steps run, and write what they say.
expect 0 "results: $out/k/kernels.json" bench kernel --model pocket-k2 --filter "argmax" --seconds 0 --output "$out/k/kernels"
expect 0 "results: $out/k/steps.json" bench step --steps 2 --context-tokens 70 --chunked-prefill-size 64 --max-total-tokens 1024 \
  --batch-size 2 --output "$out/k/steps"
check() { grep -qF -- "$2" "$1" || { echo "$1 lacks '$2'"; failed=1; }; }
check "$out/k/kernels.json" '"name": "argmax 4096"'
check "$out/k/kernels.md" "| pocket-k2 | argmax 4096 | 8 |"
for stage in prefill plain draft verify commit; do check "$out/k/steps.json" "\"stage\": \"$stage\""; done
check "$out/k/steps.md" "## DFlash step of 2 x 8 rows"
exit $failed
