// What the scheduler itself takes between two steps: a stepper that does nothing notes when it is left and entered
// again.
//
//   cmake --build --preset cpu-release --target strobe_bench_schedule
//   build/release/bench/schedule/strobe_bench_schedule models/pocket-k2/target [--running 64] [--steps 20000]
//
// All places are always taken: each request that ends is followed by another, half of them with a known beginning. The
// time covers taking requests in, admission with prefix lookup, planning, digesting results with stop strings and
// detokenising, and handing chunks to the delivery thread. Prints one JSON object.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "base/cpu_features.h"
#include "base/failure.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"

namespace strobe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kBlock = 8;
constexpr int32_t kPromptTokens = 300;
constexpr int32_t kAnswerTokens = 200;

class NullStepper : public engine::Stepper {
 public:
  NullStepper(int32_t vocab, int32_t running, size_t steps) : vocab_(vocab), running_(running) {
    gaps_us_.reserve(steps);
  }

  [[nodiscard]] int32_t max_block_tokens() const override { return kBlock; }
  [[nodiscard]] int32_t max_rows() const override { return 512 + running_ * kBlock; }
  engine::StepResult run(const engine::StepPlan& plan) override {
    const auto entered = Clock::now();
    if (left_ != Clock::time_point{} && std::ssize(plan.sequences) >= running_ &&
        gaps_us_.size() < gaps_us_.capacity()) {
      gaps_us_.push_back(std::chrono::duration<double, std::micro>(entered - left_).count());
      done_ = gaps_us_.size() == gaps_us_.capacity();
    }
    engine::StepResult result;
    for (const auto& sequence : plan.sequences) {
      engine::StepOutput output;
      if (sequence.wants_token) {
        output.drafted = sequence.block_tokens - 1;
        output.accepted =
            output.drafted == 0 ? 0 : static_cast<int32_t>(random_() % static_cast<uint32_t>(output.drafted + 1));
        for (int32_t i = 0; i <= output.accepted; ++i) {
          output.tokens.push_back(static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab_)));
        }
      }
      result.outputs.push_back(std::move(output));
    }
    // A real step takes a while, in which the delivery thread works.
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    left_ = Clock::now();
    return result;
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] std::vector<double> gaps_us() const { return gaps_us_; }

 private:
  int32_t vocab_;
  int32_t running_;
  std::mt19937 random_{1};
  std::vector<double> gaps_us_;
  Clock::time_point left_;
  std::atomic<bool> done_ = false;
};

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

int run(const char* folder, int32_t running, size_t steps) {
  auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) fail("{}", tokenizer.message());
  const auto vocab = static_cast<int32_t>((*tokenizer)->vocab_size());
  NullStepper stepper(vocab, running, steps);
  cache::PagePool pages(running * 20 + 1, 64);
  std::atomic<bool> stopping = false;
  {
    schedule::Scheduler scheduler(
        stepper, pages, **tokenizer,
        {.max_running_requests = running, .max_context_tokens = 4096, .vocab = vocab, .chunk_tokens = 512});
    std::mt19937 random(2);
    std::mutex mutex;  // of the random numbers
    std::function<void()> submit = [&] {
      schedule::GenerateRequest request;
      const bool known = random() % 2 == 0;
      for (int32_t i = 0; i < kPromptTokens; ++i) {
        request.prompt_ids.push_back(known && i < 256 ? i
                                                      : static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
      }
      request.stop.max_new_tokens = kAnswerTokens;
      request.stop.ignore_eos = true;
      request.stop.stop_strings = {"\n\nQuestion", "</answer>"};
      const auto id = scheduler.submit(std::move(request), [&](const schedule::Chunk& chunk) {
        if (!chunk.finish || stopping) return;
        const std::lock_guard lock(mutex);
        submit();
      });
      if (!id.ok() && !stopping) fail("{}", id.message());
    };
    {
      const std::lock_guard lock(mutex);
      for (int32_t i = 0; i < 2 * running; ++i) submit();
    }
    while (!stepper.done()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stopping = true;
  }
  auto gaps = stepper.gaps_us();
  std::sort(gaps.begin(), gaps.end());
  fmt::print(
      "{{\"cpu\": \"{}\", \"running\": {}, \"steps\": {}, \"us\": {{\"p50\": {:.1f}, \"p90\": {:.1f}, \"p99\": {:.1f}, "
      "\"p99.9\": {:.1f}, \"max\": {:.1f}}}}}\n",
      cpu_name(), running, gaps.size(), percentile(gaps, 0.5), percentile(gaps, 0.9), percentile(gaps, 0.99),
      percentile(gaps, 0.999), gaps.back());
  return 0;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  int running = 64;
  long steps = 20000;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--running") running = std::atoi(argv[i + 1]);
    if (std::string_view(argv[i]) == "--steps") steps = std::atol(argv[i + 1]);
  }
  if (argc < 2 || argc % 2 != 0 || running < 1 || steps < 1) {
    std::fprintf(stderr, "usage: strobe_bench_schedule MODEL_FOLDER [--running N] [--steps N]\n");
    return 1;
  }
  try {
    return strobe::run(argv[1], running, static_cast<size_t>(steps));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "strobe_bench_schedule: %s\n", failure.what());
    return 2;
  }
}
