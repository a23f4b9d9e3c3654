// Speed of a server. Closed loop: one batch, sent as one request, again for each size. Open loop: requests of their own
// that arrive at a rate, whether the server keeps up or not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/generate_stream.h"
#include "measure/http_client.h"
#include "measure/server_facts.h"
#include "measure/statistics.h"

namespace strobe::measure {

struct BenchCase {
  int64_t batch_size = 1;
  int64_t input_len = 0;   // tokens; 0: the prompts as they are
  int64_t output_len = 0;  // tokens
};

// Prompts for a case: batch_size of them.
using MakePrompts = std::function<Result<std::vector<std::vector<int32_t>>>(const BenchCase&)>;

struct CaseResult {
  BenchCase bench_case;
  std::string skipped;  // why it was not run; empty when it was
  std::string problem;  // why it has no result
  double latency_s = 0;
  double ttft_s = 0;             // until every request of the batch had its first token
  double input_throughput = 0;   // prompt tokens a second until then
  double output_throughput = 0;  // the other output tokens a second after it
  double overall_throughput = 0;
  std::optional<double> last_gen_throughput;  // what the server says
  std::optional<double> accept_length;  // what the server says since the case began, else the requests' own counts
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  Summary ttft_ms;
  Summary itl_ms;
  Summary e2e_ms;
  std::vector<int64_t> accept_histogram;
  double prompt_repeated_share = 0;  // repeated_share of the prompts (mean)
  double output_repeated_share = 0;  // and of the outputs behind them

  [[nodiscard]] bool measured() const { return skipped.empty() && problem.empty(); }
};

// Why a case does not fit the server, in words; empty when it does.
[[nodiscard]] std::string misfit(const BenchCase& bench_case, const ServerFacts& facts);

// The figures of a case from what its requests saw. Pure. `latency_s`: until the last of them ended.
void fill_figures(const std::vector<RequestRecord>& records, const std::vector<std::vector<int32_t>>& prompts,
                  double latency_s, CaseResult& result);

// Flushes the server's cache, runs the case once, asks the server how it went. Errors become the result's problem.
CaseResult run_case(const HttpClient& client, const BenchCase& bench_case, const MakePrompts& make_prompts);

struct OpenLoop {
  double request_rate = 0;  // 0: all at once
  bool poisson = true;
  int64_t requests = 0;
  int32_t max_concurrency = 1024;  // clients at a time; requests beyond that wait for one
  uint64_t seed = 42;
};

struct OpenLoopResult {
  CaseResult figures;  // batch_size: the requests that were answered
  int64_t failed = 0;
  int64_t not_asked = 0;  // neither answered nor failed when the run was ended
  std::string first_problem;
  double request_throughput = 0;
  double mean_concurrency = 0;
  double most_late_s = 0;  // of all requests, the longest time after its arrival that one was sent: clients were busy
  Summary tpot_ms;         // (end - first token) / (tokens - 1) of each request
};

OpenLoopResult run_open_loop(const HttpClient& client, const OpenLoop& load, const BenchCase& bench_case,
                             const MakePrompts& make_prompts, const std::function<void(int64_t done)>& on_done);

}  // namespace strobe::measure
