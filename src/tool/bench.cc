// strobe bench serve: speed and accept length of a served model.
#include "tool/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "measure/bench_report.h"
#include "measure/dataset.h"
#include "measure/files.h"
#include "measure/progress.h"
#include "tool/commands.h"
#include "tool/interrupt.h"
#include "tool/measuring.h"

namespace strobe::tool {
namespace {

using nlohmann::json;

constexpr int64_t kWarmUpInput = 1024, kWarmUpOutput = 16;
constexpr int64_t kSafeVocab = 1000;  // ids that every tokenizer has, when the server does not say how many there are

Result<void> check_each(const char* flag, const std::vector<int32_t>& values, int32_t least) {
  if (values.empty()) return error("{}: at least one value is needed", flag);
  for (const int32_t value : values) {
    if (value < least || value > (1 << 20)) return error("{} {}: accepted: {} to {}", flag, value, least, 1 << 20);
  }
  return {};
}

// The texts of --data-path; none with random-ids.
Result<std::vector<std::string>> read_texts(const BenchOptions& o) {
  STROBE_ASSIGN(const measure::Dataset dataset, measure::parse_dataset(o.dataset));
  if (dataset == measure::Dataset::kRandomIds) return std::vector<std::string>{};
  return dataset == measure::Dataset::kJsonl ? measure::read_prompt_lines(o.data_path)
                                             : measure::read_sharegpt(o.data_path);
}

// Prompts of a run: tokenised once, then cut to each case.
class PromptMaker {
 public:
  PromptMaker(const BenchOptions& options, std::vector<std::string> texts, const measure::HttpClient& client,
              const measure::ServerFacts& facts)
      : options_(options), client_(client), facts_(facts), texts_(std::move(texts)) {}

  Result<std::vector<std::vector<int32_t>>> make(const measure::BenchCase& c) {
    std::vector<std::vector<int32_t>> prompts;
    measure::Random random(static_cast<uint64_t>(options_.seed));
    for (int64_t i = 0; i < c.batch_size; ++i) {
      if (texts_.empty()) {
        const int64_t vocab = facts_.vocab_tokens.value_or(kSafeVocab);
        const auto first = static_cast<int64_t>(random.next() % static_cast<uint64_t>(vocab));
        prompts.push_back(measure::consecutive_ids(first, c.input_len, vocab));
        continue;
      }
      const size_t text = static_cast<size_t>(i) % texts_.size();
      if (ids_.size() <= text) {
        STROBE_ASSIGN(std::vector<int32_t> ids, measure::tokenize(client_, facts_.model, texts_[text]));
        if (ids.empty()) return error("--data-path {}: prompt {} has no tokens", options_.data_path, text + 1);
        ids_.push_back(std::move(ids));
      }
      prompts.push_back(measure::fit(ids_[text], c.input_len));
    }
    return prompts;
  }

  [[nodiscard]] std::string about() const {
    if (texts_.empty()) return fmt::format("consecutive ids from random places, seed {}", options_.seed);
    return fmt::format(
        "{} texts of {}, {}", texts_.size(), options_.data_path,
        options_.input_len == std::vector<int32_t>{0} ? "as they are" : "each repeated or cut to the input length");
  }

 private:
  const BenchOptions& options_;
  const measure::HttpClient& client_;
  const measure::ServerFacts& facts_;
  const std::vector<std::string> texts_;   // none: ids without a text
  std::vector<std::vector<int32_t>> ids_;  // of the first texts
};

std::vector<measure::BenchCase> cases_of(const BenchOptions& o) {
  std::vector<measure::BenchCase> cases;
  for (const int32_t batch : o.batch_size) {
    for (const int32_t input : o.input_len) {
      for (const int32_t output : o.output_len) cases.push_back({batch, input, output});
    }
  }
  return cases;
}

class Bench {
 public:
  Bench(const BenchOptions& options, std::vector<std::string> texts, const measure::HttpClient& client,
        measure::ServerFacts facts, const std::atomic<bool>& stop)
      : options_(options),
        client_(client),
        facts_(std::move(facts)),
        stop_(stop),
        prompts_(options, std::move(texts), client, facts_) {
    report_.model = facts_.model;
    report_.server = client.endpoint().url();
    report_.run_name = options.run_name;
    report_.server_args = facts_.server_args;
    if (options.spec_accept_length_threshold > 0) report_.threshold = options.spec_accept_length_threshold;
    stem_ = fmt::format("{}/bench_{}_{}", options.output_dir, measure::safe_name(facts_.model),
                        measure::safe_name(options.run_name));
  }

  Result<void> run() {
    report_.dataset = prompts_.about();
    remove_plots();
    options_.open_loop ? run_open() : run_batches();
    write();
    if (!options_.profile_dir.empty() && !stop_) {
      STROBE_TRY(profile_all());
      write();
    }
    fmt::print("{}{}\nresults: {}.json, {}.md\n", measure::to_markdown(report_), measure::verdict_line(report_), stem_,
               stem_);
    return {};
  }

  [[nodiscard]] int exit_code() const {
    if (stop_) return kNotMeasured;
    switch (measure::judge(report_)) {
      case measure::Verdict::kPass:
        return kPassed;
      case measure::Verdict::kFail:
        return kBelowThreshold;
      case measure::Verdict::kUnknown:
        break;
    }
    return kNotMeasured;
  }

 private:
  [[nodiscard]] measure::MakePrompts maker() {
    return [this](const measure::BenchCase& c) { return prompts_.make(c); };
  }

  // One short run of a batch size, so that nothing is done for the first time while it is measured.
  void warm_up(int32_t batch) {
    measure::BenchCase c{.batch_size = batch, .input_len = kWarmUpInput, .output_len = kWarmUpOutput};
    const int64_t room = facts_.max_context_tokens.value_or(kWarmUpInput + kWarmUpOutput) - kWarmUpOutput;
    c.input_len = std::clamp<int64_t>(room, 1, kWarmUpInput);
    if (measure::misfit(c, facts_).empty()) (void)measure::run_case(client_, c, maker());
  }

  void run_batches() {
    if (!options_.skip_warmup) {
      for (const int32_t batch : options_.batch_size) {
        if (!stop_) warm_up(batch);
      }
    }
    const auto cases = cases_of(options_);
    measure::Progress progress(measure::Progress::mode_of_stderr(options_.quiet), std::ssize(cases));
    for (const measure::BenchCase& c : cases) {
      measure::CaseResult result{.bench_case = c, .skipped = measure::misfit(c, facts_)};
      if (stop_) result.problem = measure::kStoppedEarly;
      if (result.measured()) result = measure::run_case(client_, c, maker());
      report_.cases.push_back(std::move(result));
      write();  // what a run that is cut short leaves
      progress.show(std::ssize(report_.cases), fmt::format("batch {}", c.batch_size));
    }
  }

  void run_open() {
    report_.load = measure::OpenLoop{.request_rate = options_.request_rate,
                                     .poisson = options_.arrivals == "poisson",
                                     .requests = options_.num_prompts,
                                     .max_concurrency = options_.max_concurrency,
                                     .seed = static_cast<uint64_t>(options_.seed)};
    const measure::BenchCase c{
        .batch_size = 1, .input_len = options_.input_len[0], .output_len = options_.output_len[0]};
    if (!options_.skip_warmup) warm_up(1);
    measure::Progress progress(measure::Progress::mode_of_stderr(options_.quiet), options_.num_prompts);
    report_.open = measure::run_open_loop(client_, *report_.load, c, maker(),
                                          [&](int64_t done) { progress.show(done, "requests"); });
  }

  // The server adds the batch size.
  [[nodiscard]] std::string profile_name(const measure::BenchCase& c) const {
    const std::string run = measure::safe_name(options_.run_name);
    const bool one = options_.input_len.size() == 1 && options_.output_len.size() == 1;
    return one ? run : fmt::format("{}-in{}-out{}", run, c.input_len, c.output_len);
  }

  // The cases again, slower, with profiles: what was measured is not touched.
  Result<void> profile_all() {
    const std::string folder = std::filesystem::absolute(options_.profile_dir);
    for (const measure::CaseResult& result : report_.cases) {
      if (!result.measured() || stop_) continue;
      const std::string name = profile_name(result.bench_case);
      STROBE_TRY(
          post("/start_profile", json{{"output_dir", folder}, {"profile_prefix", name}, {"profile_by_stage", true}}));
      const measure::CaseResult again = measure::run_case(client_, result.bench_case, maker());
      STROBE_ASSIGN(const json answer, post("/stop_profile", json::object()));
      if (!again.problem.empty()) return error("profiling batch {}: {}", result.bench_case.batch_size, again.problem);
      // A server of another make says nothing about its files.
      if (!answer.contains("files")) continue;
      for (const json& file : answer["files"]) report_.profiles.push_back(file.get<std::string>());
      fmt::print("profile of batch {}\n{}\n", result.bench_case.batch_size, answer.value("summary", ""));
    }
    return {};
  }

  Result<json> post(const char* path, const json& body) {
    const measure::HttpReply reply = client_.post(path, body.dump());
    if (!reply.ok()) return error("{}{}: {}", client_.endpoint().url(), path, reply.describe());
    json answer = json::parse(reply.body, nullptr, false);
    return answer.is_object() ? answer : json::object();
  }

  [[nodiscard]] std::string plot_file(const std::string& plot) const { return fmt::format("{}_{}.svg", stem_, plot); }

  // Those of an earlier run by this name: not every run draws all of them anew.
  void remove_plots() const {
    std::error_code ignored;
    for (const char* plot : measure::kPlotNames) std::filesystem::remove(plot_file(plot), ignored);
  }

  void write() const {
    measure::write_whole(stem_ + ".json",
                         measure::to_json(report_).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
    std::string page = measure::to_markdown(report_) + "\n" + measure::verdict_line(report_) + "\n";
    for (const measure::NamedPlot& plot : measure::plots(report_)) {
      const std::string file = plot_file(plot.name);
      measure::write_whole(file, plot.svg);
      page += fmt::format("\n![{}]({})\n", plot.name, std::filesystem::path(file).filename().string());
    }
    measure::write_whole(stem_ + ".md", page);
  }

  const BenchOptions& options_;
  const measure::HttpClient& client_;
  const measure::ServerFacts facts_;
  const std::atomic<bool>& stop_;
  PromptMaker prompts_;
  measure::BenchReport report_;
  std::string stem_;
};

int bench_serve(const BenchOptions& o) {
  if (const auto checked = check(o); !checked) return say_error(checked.error(), kUsageError);
  auto texts = read_texts(o);
  if (!texts) return say_error(texts.error(), kUsageError);
  const Interrupt interrupt;
  const auto server = MeasuredServer::open(
      o.server, fmt::format("{}/bench_{}_server.log", o.output_dir, measure::safe_name(o.run_name)), interrupt.flag(),
      o.profile_dir.empty() ? "" : std::filesystem::absolute(o.profile_dir).string());
  if (!server) return say_error(server.error(), kNotMeasured);
  auto facts = measure::read_server_facts(server->client());
  if (!facts) return say_error(facts.error(), kNotMeasured);
  Bench bench(o, *std::move(texts), server->client(), *std::move(facts), interrupt.flag());
  if (const auto run = bench.run(); !run) return say_error(run.error(), kNotMeasured);
  return bench.exit_code();
}

Result<void> check_load(const BenchOptions& o) {
  if (!(o.request_rate >= 0 && o.request_rate <= 1e6)) {
    return error("--request-rate {}: accepted: 0 (all at once) to 1000000", o.request_rate);
  }
  if (o.arrivals != "poisson" && o.arrivals != "even")
    return error("--arrivals {}: accepted: poisson, even", o.arrivals);
  if (o.num_prompts < 1) return error("--num-prompts {}: accepted: 1 and more", o.num_prompts);
  if (o.max_concurrency < 1 || o.max_concurrency > 4096) {
    return error("--max-concurrency {}: accepted: 1 to 4096", o.max_concurrency);
  }
  if (!o.open_loop) {
    if (o.request_rate != 0) return error("--request-rate {} is given without --open-loop", o.request_rate);
    return {};
  }
  if (o.input_len.size() > 1) return error("--input-len: one value with --open-loop, {} are given", o.input_len.size());
  if (o.output_len.size() > 1)
    return error("--output-len: one value with --open-loop, {} are given", o.output_len.size());
  if (o.batch_size != std::vector<int32_t>{1})
    return error("--batch-size is given with --open-loop, which has no batches");
  if (!o.profile_dir.empty()) return error("--profile-dir {}: not with --open-loop", o.profile_dir);
  return {};
}

}  // namespace

Result<void> check(const BenchOptions& o) {
  STROBE_ASSIGN(const measure::Dataset dataset, measure::parse_dataset(o.dataset));
  const bool file = dataset != measure::Dataset::kRandomIds;
  if (file == o.data_path.empty()) {
    return file ? error("--dataset {} needs --data-path: its file", o.dataset)
                : error("--data-path {} is given with --dataset random-ids, which has no file", o.data_path);
  }
  STROBE_TRY(check_each("--batch-size", o.batch_size, 1));
  STROBE_TRY(check_each("--input-len", o.input_len, file ? 0 : 1));
  STROBE_TRY(check_each("--output-len", o.output_len, 1));
  if (!(o.spec_accept_length_threshold >= 0 && o.spec_accept_length_threshold <= 64)) {
    return error("--spec-accept-length-threshold {}: accepted: 0 (none) to 64", o.spec_accept_length_threshold);
  }
  STROBE_TRY(check_load(o));
  STROBE_TRY(check(o.server));
  if (!o.profile_dir.empty()) STROBE_TRY(measure::make_folder("--profile-dir", o.profile_dir));
  return measure::make_folder("--output-dir", o.output_dir);
}

Subcommand bench_command() {
  return measuring_command<BenchOptions>("bench serve", "measure a server's speed and accept length", bench_serve);
}

}  // namespace strobe::tool
