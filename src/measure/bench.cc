#include "measure/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

namespace strobe::measure {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Or until the client is stopped.
void wait_until(Clock::time_point moment, const HttpClient& client) {
  constexpr Clock::duration kSlice = std::chrono::milliseconds(50);
  while (!client.stopped() && Clock::now() < moment)
    std::this_thread::sleep_for(std::min(kSlice, moment - Clock::now()));
}

std::string generate_body(const json& input_ids, int64_t output_len) {
  return json{{"input_ids", input_ids},
              {"stream", true},
              {"sampling_params",
               {{"temperature", 0}, {"max_new_tokens", output_len}, {"ignore_eos", true}, {"stream_interval", 1}}}}
      .dump();
}

// Sends prompts as one call; the stream holds what came. The problem, or nothing.
std::string generate(const HttpClient& client, const json& input_ids, int64_t output_len, GenerateStream& stream,
                     double& latency_s) {
  const std::string body = generate_body(input_ids, output_len);
  const auto start = Clock::now();
  const HttpReply reply =
      client.post_stream("/generate", body, [&](std::string_view data) { stream.event(data, seconds_since(start)); });
  latency_s = seconds_since(start);
  if (!reply.ok()) return "/generate: " + reply.describe();
  return stream.problem();
}

void ask_server(const HttpClient& client, CaseResult& result) {
  const auto facts = read_server_facts(client);
  if (!facts) return;
  result.last_gen_throughput = facts->last_gen_throughput;
  if (facts->accept_length) result.accept_length = facts->accept_length;
}

}  // namespace

std::string misfit(const BenchCase& c, const ServerFacts& facts) {
  const int64_t tokens = c.input_len + c.output_len;
  if (facts.max_context_tokens && tokens > *facts.max_context_tokens) {
    return fmt::format("{} tokens do not fit the context of {}", tokens, *facts.max_context_tokens);
  }
  if (facts.token_capacity && c.batch_size * tokens > *facts.token_capacity) {
    return fmt::format("{} x {} tokens do not fit the cache of {}", c.batch_size, tokens, *facts.token_capacity);
  }
  if (facts.max_running_requests && c.batch_size > *facts.max_running_requests) {
    return fmt::format("a batch of {} where {} requests run together", c.batch_size, *facts.max_running_requests);
  }
  return "";
}

void fill_figures(const std::vector<RequestRecord>& records, const std::vector<std::vector<int32_t>>& prompts,
                  double latency_s, CaseResult& result) {
  std::vector<double> ttft_ms, itl_ms, e2e_ms;
  int64_t first_tokens = 0, verify_steps = 0, accepted = 0;
  result.latency_s = latency_s;
  for (size_t i = 0; i < records.size(); ++i) {
    const RequestRecord& record = records[i];
    result.input_tokens += std::ssize(prompts[i]);
    result.output_tokens += record.completion_tokens;
    first_tokens += record.first_event_tokens;
    result.ttft_s = std::max(result.ttft_s, record.first_s);
    ttft_ms.push_back(record.first_s * 1000);
    e2e_ms.push_back(record.last_s * 1000);
    for (const double gap : record.gaps_s) itl_ms.push_back(gap * 1000);
    verify_steps += record.verify_steps;
    accepted += record.accepted_tokens;
    if (result.accept_histogram.size() < record.accept_histogram.size()) {
      result.accept_histogram.resize(record.accept_histogram.size());
    }
    for (size_t a = 0; a < record.accept_histogram.size(); ++a)
      result.accept_histogram[a] += record.accept_histogram[a];
    const double share = 1.0 / static_cast<double>(records.size());
    result.prompt_repeated_share += repeated_share({}, prompts[i]) * share;
    result.output_repeated_share += repeated_share(prompts[i], record.output_ids) * share;
  }
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  result.input_throughput = rate(result.input_tokens, result.ttft_s);
  result.output_throughput = rate(result.output_tokens, latency_s - result.ttft_s);
  result.overall_throughput = rate(result.input_tokens + result.output_tokens, latency_s);
  result.ttft_ms = summarise(ttft_ms);
  result.itl_ms = summarise(itl_ms);
  result.e2e_ms = summarise(e2e_ms);
  if (verify_steps > 0) {
    result.accept_length = static_cast<double>(accepted + verify_steps) / static_cast<double>(verify_steps);
  }
}

CaseResult run_case(const HttpClient& client, const BenchCase& bench_case, const MakePrompts& make_prompts) {
  CaseResult result{.bench_case = bench_case};
  const auto prompts = make_prompts(bench_case);
  if (!prompts) {
    result.problem = prompts.message();
    return result;
  }
  if (const auto flushed = flush_cache(client); !flushed) {
    result.problem = flushed.message();
    return result;
  }
  GenerateStream stream(prompts->size());
  double latency_s = 0;
  result.problem = generate(client, *prompts, bench_case.output_len, stream, latency_s);
  if (client.stopped()) result.problem = kStoppedEarly;
  if (!result.problem.empty()) return result;
  fill_figures(stream.records(), *prompts, latency_s, result);
  ask_server(client, result);
  return result;
}

OpenLoopResult run_open_loop(const HttpClient& client, const OpenLoop& load, const BenchCase& bench_case,
                             const MakePrompts& make_prompts, const std::function<void(int64_t)>& on_done) {
  OpenLoopResult result;
  result.figures.bench_case = bench_case;
  BenchCase all = bench_case;
  all.batch_size = load.requests;
  const auto prompts = make_prompts(all);
  if (const auto flushed = prompts ? flush_cache(client) : Result<void>(prompts.error()); !flushed) {
    result.figures.problem = flushed.message();
    return result;
  }
  const std::vector<double> arrivals = arrival_times(load.requests, load.request_rate, load.poisson, load.seed);
  std::vector<RequestRecord> records;
  std::vector<std::vector<int32_t>> answered_prompts;
  std::vector<double> tpot_ms;
  double busy_s = 0, end_s = 0;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto start = Clock::now();
  const auto serve_one = [&](size_t i) {
    wait_until(start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrivals[i])), client);
    const double late_s = seconds_since(start) - arrivals[i];
    GenerateStream stream(1);
    double latency_s = 0;
    const std::string problem = generate(client, (*prompts)[i], bench_case.output_len, stream, latency_s);
    const std::lock_guard lock(mutex);
    if (!problem.empty() && client.stopped()) return;
    if (problem.empty()) {
      const RequestRecord& record = stream.records()[0];
      if (record.completion_tokens > 1) {
        tpot_ms.push_back((record.last_s - record.first_s) * 1000 / static_cast<double>(record.completion_tokens - 1));
      }
      records.push_back(record);
      answered_prompts.push_back((*prompts)[i]);
    } else {
      ++result.failed;
      if (result.first_problem.empty()) result.first_problem = problem;
    }
    busy_s += latency_s;
    result.most_late_s = std::max(result.most_late_s, late_s);
    end_s = std::max(end_s, seconds_since(start));
    on_done(std::ssize(records) + result.failed);
  };
  std::vector<std::thread> threads;
  const auto count = std::min<size_t>(static_cast<size_t>(load.max_concurrency), prompts->size());
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < prompts->size() && !client.stopped(); i = next++) serve_one(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  result.not_asked = load.requests - std::ssize(records) - result.failed;
  if (client.stopped()) result.figures.problem = kStoppedEarly;
  if (records.empty() && result.figures.problem.empty()) result.figures.problem = result.first_problem;
  result.figures.bench_case.batch_size = std::ssize(records);
  fill_figures(records, answered_prompts, end_s, result.figures);
  // Here prompts are read while others decode: rates are over the whole time.
  if (end_s > 0) {
    result.figures.input_throughput = static_cast<double>(result.figures.input_tokens) / end_s;
    result.figures.output_throughput = static_cast<double>(result.figures.output_tokens) / end_s;
    result.request_throughput = static_cast<double>(records.size()) / end_s;
    result.mean_concurrency = busy_s / end_s;
  }
  result.tpot_ms = summarise(tpot_ms);
  ask_server(client, result.figures);
  return result;
}

}  // namespace strobe::measure
