// strobe bench step: where the steps of a served model spend their time.
//
// The real system runs, its kernels behind a table that times each call. A step's own time is measured with that table
// idle, then the same step runs with it; what lies between the two is the host's work between kernels.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/log.h"
#include "base/stopwatch.h"
#include "measure/files.h"
#include "measure/statistics.h"
#include "probe/timing_kernels.h"
#include "tool/assembly.h"
#include "tool/check_options.h"
#include "tool/draft_cost.h"
#include "tool/measuring.h"

namespace strobe::tool {
namespace {

using nlohmann::ordered_json;

struct BenchStepOptions {
  EngineOptions engine;
  int32_t context_tokens = 256;
  int32_t batch_size = 1;
  int32_t steps = 50;
  std::string output;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--context-tokens", context_tokens, "tokens before the step, of each request");
    v("--batch-size", batch_size, "requests that decode together");
    v("--steps", steps, "how often each step is timed; a chunk of a prompt a tenth as often");
    v("--output", output, "NAME: the results go to NAME.json and NAME.md; default: they are only printed");
    engine.visit(v);
  }
};

// The calls of one kind in one stage of a step, summed.
struct KernelShare {
  std::string name;
  double calls = 0;  // a step
  double us = 0;     // a step, median
};

struct Stage {
  std::string name;  // "draft", "verify", ...
  double kernels_us = 0;
  std::vector<KernelShare> shares;  // the largest first
};

struct StepTimes {
  std::string name;
  double ms = 0;  // median, untimed kernels
  std::vector<Stage> stages;

  [[nodiscard]] double kernels_ms() const {
    return std::accumulate(stages.begin(), stages.end(), 0.0,
                           [](double sum, const Stage& s) { return sum + s.kernels_us / 1e3; });
  }
};

// A system and requests whose context it has read.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> open(const BenchStepOptions& options, bool speculates) {
    EngineOptions engine = options.engine;
    if (speculates) {
      engine.speculative_min_accept_length = "0";  // no scheduler asks for it, so nothing is measured for it
    } else {
      engine.speculative_algorithm.clear();
      engine.speculative_draft_model_path.clear();
    }
    auto bench = std::unique_ptr<Bench>(new Bench(options));
    STROBE_ASSIGN(bench->system_, assemble(engine, [&](std::unique_ptr<kernel::Kernels> inner) {
                    auto timing = std::make_unique<probe::TimingKernels>(std::move(inner));
                    bench->timing_ = timing.get();
                    return timing;
                  }));
    STROBE_TRY(bench->place());
    return bench;
  }

  // One whole chunk of a prompt.
  StepTimes prefill() {
    const int32_t tokens = chunk_tokens();
    engine::StepPlan plan;
    plan.sequences.push_back(
        {.tokens = std::span(text_).first(static_cast<size_t>(tokens)), .pages = pages_[0], .wants_token = false});
    return measure(fmt::format("prefill of {} tokens", tokens), plan, std::max(3, options_.steps / 10), {"prefill"},
                   "context");
  }

  // The step at the end of the context, again and again: what it writes is the same every time.
  StepTimes decode() {
    const bool speculates = system_->speculates();
    const int32_t block = speculates ? system_->stepper->max_block_tokens() : 1;
    engine::StepPlan plan;
    for (const auto& pages : pages_) {
      plan.sequences.push_back({.tokens = std::span(text_).subspan(static_cast<size_t>(options_.context_tokens), 1),
                                .first_position = options_.context_tokens,
                                .pages = pages,
                                .wants_token = true,
                                .block_tokens = block,
                                .sampling = &sampling_});
    }
    const auto name = speculates ? fmt::format("DFlash step of {} x {} rows", options_.batch_size, block)
                                 : fmt::format("plain step of {} rows", options_.batch_size);
    return measure(name, plan, options_.steps,
                   speculates ? std::vector<std::string>{"draft", "verify"} : std::vector<std::string>{"plain"},
                   "commit");
  }

  // Reads the context of every request.
  void read_context() {
    const auto context = std::span(text_).first(static_cast<size_t>(options_.context_tokens));
    for (const auto& pages : pages_) read_text(*system_->stepper, context, pages, chunk_tokens());
  }

  [[nodiscard]] const System& system() const { return *system_; }

 private:
  explicit Bench(const BenchStepOptions& options) : options_(options) { sampling_.temperature = 0; }

  [[nodiscard]] int32_t chunk_tokens() const {
    return std::min(system_->options.chunked_prefill_size, static_cast<int32_t>(text_.size()));
  }

  // Tokens and pages. Page 0 takes padding.
  Result<void> place() {
    const int32_t page = system_->options.page_size;
    const int32_t longest = options_.context_tokens + engine::kMaxBlockTokens;
    if (longest > system_->context_tokens) {
      return error("--context-tokens {}: with a block behind it more than the {} of --context-length",
                   options_.context_tokens, system_->context_tokens);
    }
    const int32_t each = (std::max(longest, system_->options.chunked_prefill_size) + page - 1) / page;
    if (int64_t{each} * options_.batch_size > system_->memory.pages) {
      return error("--batch-size {} of {} tokens: the caches hold {} pages of {} tokens (--max-total-tokens)",
                   options_.batch_size, longest, system_->memory.pages, page);
    }
    if (options_.batch_size > system_->options.max_running_requests) {
      return error("--batch-size {}: more than --max-running-requests {}", options_.batch_size,
                   system_->options.max_running_requests);
    }
    for (int32_t i = 0; i < options_.batch_size; ++i) {
      std::vector<int32_t>& pages = pages_.emplace_back(static_cast<size_t>(each));
      std::iota(pages.begin(), pages.end(), 1 + i * each);
    }
    // Ids from all over the vocabulary, so that experts get what random text gives them.
    text_.resize(static_cast<size_t>(std::min(each * page, static_cast<int32_t>(system_->context_tokens))));
    measure::Random random(1);
    for (int32_t& id : text_) {
      id = static_cast<int32_t>(random.next() % static_cast<uint64_t>(system_->config.vocab_size));
    }
    return {};
  }

  // A step's calls, cut where a pass ends: `passes` names them, `rest` what comes after the last.
  StepTimes measure(std::string name, const engine::StepPlan& plan, int32_t steps,
                    const std::vector<std::string>& passes, const std::string& rest) {
    StepTimes times{.name = std::move(name)};
    for (int32_t i = 0; i < 3; ++i) system_->stepper->run(plan);
    std::vector<double> ms;
    for (int32_t i = 0; i < steps; ++i) {
      Stopwatch watch;
      system_->stepper->run(plan);
      ms.push_back(watch.lap_ms());
    }
    times.ms = measure::percentile(ms, 0.5);
    std::vector<std::vector<probe::KernelCall>> runs;
    for (int32_t i = 0; i < steps; ++i) {
      timing_->start();
      system_->stepper->run(plan);
      runs.push_back(timing_->stop());
    }
    times.stages = stages_of(runs, passes, rest);
    return times;
  }

  static std::vector<Stage> stages_of(const std::vector<std::vector<probe::KernelCall>>& runs,
                                      const std::vector<std::string>& passes, const std::string& rest) {
    // us by stage and name: one number a run
    std::vector<std::map<std::string, std::vector<double>>> us(passes.size() + 1);
    std::vector<std::map<std::string, int64_t>> calls(us.size());
    for (size_t run = 0; run < runs.size(); ++run) {
      size_t stage = 0;
      for (const probe::KernelCall& call : runs[run]) {
        std::vector<double>& sums = us[stage][call.name];
        sums.resize(runs.size());
        sums[run] += call.us;
        ++calls[stage][call.name];
        if (call.ends_pass && stage < passes.size()) ++stage;
      }
    }
    std::vector<Stage> stages;
    for (size_t i = 0; i < us.size(); ++i) {
      if (us[i].empty()) continue;
      Stage& stage = stages.emplace_back();
      stage.name = i < passes.size() ? passes[i] : rest;
      for (const auto& [name, sums] : us[i]) {
        stage.shares.push_back({name, static_cast<double>(calls[i][name]) / static_cast<double>(runs.size()),
                                measure::percentile(sums, 0.5)});
        stage.kernels_us += stage.shares.back().us;
      }
      std::stable_sort(stage.shares.begin(), stage.shares.end(),
                       [](const KernelShare& a, const KernelShare& b) { return a.us > b.us; });
    }
    return stages;
  }

  const BenchStepOptions& options_;
  engine::SamplingParams sampling_;
  std::vector<std::vector<int32_t>> pages_;  // of each request
  std::vector<int32_t> text_;
  std::unique_ptr<System> system_;
  probe::TimingKernels* timing_ = nullptr;  // inside system_
};

struct Report {
  std::string machine;
  std::string model;
  int32_t context_tokens = 0;
  std::vector<StepTimes> steps;
};

std::string to_markdown(const Report& report) {
  std::string page = fmt::format(
      "# Steps of {}, {:%Y-%m-%d}\n\n{}. Context {} tokens. Medians. A step is timed as it runs; its calls are timed "
      "one by one, "
      "each waited for, which on a GPU takes much longer than the step: they say what weighs most in it.\n",
      report.model, fmt::gmtime(std::time(nullptr)), report.machine, report.context_tokens);
  for (const StepTimes& step : report.steps) {
    const double calls_ms = step.kernels_ms();
    page += fmt::format("\n## {}\n\n{:.3f} ms; its calls one by one: {:.3f} ms.\n", step.name, step.ms, calls_ms);
    for (const Stage& stage : step.stages) {
      page += fmt::format("\n| {}: {:.1f} us | calls | us | share of all calls |\n|---|---|---|---|\n", stage.name,
                          stage.kernels_us);
      for (const KernelShare& s : stage.shares) {
        page += fmt::format("| {} | {:.0f} | {:.1f} | {:.1f}% |\n", s.name, s.calls, s.us, s.us / calls_ms / 10);
      }
    }
  }
  return page;
}

ordered_json to_json(const Report& report) {
  ordered_json steps = ordered_json::array();
  for (const StepTimes& step : report.steps) {
    ordered_json stages = ordered_json::array();
    for (const Stage& stage : step.stages) {
      ordered_json shares = ordered_json::array();
      for (const KernelShare& s : stage.shares) {
        shares.push_back({{"kernel", s.name}, {"calls", s.calls}, {"us", s.us}});
      }
      stages.push_back({{"stage", stage.name}, {"kernels_us", stage.kernels_us}, {"kernels", shares}});
    }
    steps.push_back({{"step", step.name}, {"ms", step.ms}, {"kernels_ms", step.kernels_ms()}, {"stages", stages}});
  }
  return {{"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
          {"machine", report.machine},
          {"model", report.model},
          {"context_tokens", report.context_tokens},
          {"steps", steps}};
}

Result<void> check(BenchStepOptions& o) {
  if (o.context_tokens < 1) return error("--context-tokens {}: accepted: 1 and more", o.context_tokens);
  if (o.batch_size < 1 || o.batch_size > 4096) return error("--batch-size {}: accepted: 1 to 4096", o.batch_size);
  if (o.steps < 1 || o.steps > 100'000) return error("--steps {}: accepted: 1 to 100000", o.steps);
  default_to_pocket(o.engine);
  if (o.engine.log_level == "info") o.engine.log_level = "warning";
  EngineOptions copy = o.engine;
  STROBE_TRY(check_options(copy));
  const std::string folder = std::filesystem::path(o.output).parent_path();
  return folder.empty() ? Result<void>() : measure::make_folder("--output", folder);
}

Result<Report> run(const BenchStepOptions& o) {
  Report report{.context_tokens = o.context_tokens};
  std::vector<bool> systems = {false};
  if (!o.engine.speculative_algorithm.empty()) systems.push_back(true);
  for (const bool speculates : systems) {
    STROBE_ASSIGN(const std::unique_ptr<Bench> bench, Bench::open(o, speculates));
    const System& system = bench->system();
    report.machine = fmt::format("{}, {} threads, kernels {}", cpu_name(), system.options.threads, system.kernels);
    if (system.device.kind != DeviceKind::kCpu)
      report.machine = system.decided("device") + ", kernels " + system.kernels;
    report.model = std::filesystem::path(system.options.model_path).lexically_normal().string();
    report.steps.push_back(bench->prefill());
    if (speculates) report.steps.back().name += ", with the draft's context";
    bench->read_context();
    report.steps.push_back(bench->decode());
  }
  return report;
}

int bench_step(const BenchStepOptions& given) {
  BenchStepOptions o = given;
  if (const auto checked = check(o); !checked) return say_error(checked.error(), kUsageError);
  const auto report = run(o);
  if (!report) return say_error(report.error(), kNotMeasured);
  const std::string page = to_markdown(*report);
  fmt::print("{}", page);
  if (!o.output.empty()) {
    measure::write_whole(o.output + ".json", to_json(*report).dump(1) + "\n");
    measure::write_whole(o.output + ".md", page);
    fmt::print("\nresults: {0}.json, {0}.md\n", o.output);
  }
  return kPassed;
}

}  // namespace

Subcommand bench_step_command() {
  return measuring_command<BenchStepOptions>("bench step", "show where a step's time goes", bench_step);
}

}  // namespace strobe::tool
