// `strobe bench serve`: what the command line says, checked.
#pragma once

#include <string>
#include <vector>

#include "tool/measured_server.h"

namespace strobe::tool {

struct BenchOptions {
  std::vector<int32_t> batch_size = {1};
  std::vector<int32_t> input_len = {1024};
  std::vector<int32_t> output_len = {16};
  std::string dataset = "random-ids";
  std::string data_path;
  double spec_accept_length_threshold = 0;
  std::string profile_dir;
  std::string run_name = "strobe";
  bool open_loop = false;
  double request_rate = 0;
  std::string arrivals = "poisson";
  int32_t num_prompts = 1000;
  int32_t max_concurrency = 256;
  int64_t seed = 42;
  bool skip_warmup = false;
  std::string output_dir = "strobe-results";
  bool quiet = false;
  MeasuredServerOptions server;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--batch-size", batch_size, "requests sent together; each size is a case of its own");
    v("--input-len", input_len,
      "prompt tokens, several: a case each; prompts of a file are repeated or cut to it, 0: as they are");
    v("--output-len", output_len, "tokens of each answer, several: a case each; end tokens are ignored");
    v("--dataset", dataset, "random-ids | sharegpt-file | jsonl (`prompt` or `question` a line)");
    v("--data-path", data_path, "the file of sharegpt-file or jsonl");
    v("--spec-accept-length-threshold", spec_accept_length_threshold, "the least accept length that passes; 0: none");
    v("--profile-dir", profile_dir, "the cases run once more with profiles, written there by the server");
    v("--run-name", run_name, "in the names of results and profiles");
    v("--open-loop", open_loop, "requests arrive one by one, at --request-rate, instead of in batches");
    v("--request-rate", request_rate, "requests a second with --open-loop; 0: all at once");
    v("--arrivals", arrivals, "poisson | even, with --open-loop");
    v("--num-prompts", num_prompts, "requests with --open-loop");
    v("--max-concurrency", max_concurrency, "requests at a time with --open-loop");
    v("--seed", seed, "of prompts and arrivals");
    v("--skip-warmup", skip_warmup, "measure without a first run of each batch size");
    v("--output-dir", output_dir, "where bench_MODEL_RUN.json, .md and .svg plots are written");
    v("--quiet", quiet, "no progress");
    server.visit(v);
  }
};

// Errors name the flag.
Result<void> check(const BenchOptions& options);

}  // namespace strobe::tool
