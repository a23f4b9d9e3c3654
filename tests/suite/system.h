// A whole system over pocket-k2, and many prompts through it at once.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "source_dir.h"
#include "tool/assembly.h"
#include "tool/text_adapter.h"

namespace strobe::suite {

inline tool::EngineOptions pocket_options(bool dflash) {
  tool::EngineOptions options;
  options.model_path = source_dir() / "models/pocket-k2/target";
  options.log_level = "warning";
  options.threads = 2;
  options.max_running_requests = 16;
  options.max_total_tokens = 32768;
  if (dflash) {
    options.speculative_algorithm = "DFLASH";
    options.speculative_draft_model_path = source_dir() / "models/pocket-k2/draft";
    options.speculative_min_accept_length = "0";  // what is measured at start would change the counts
  }
  return options;
}

struct Answer {
  std::vector<int32_t> ids;
  std::string text;
  schedule::Finish finish;
  schedule::Usage usage;
};

inline std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Fills what became free with NaN at the beginning of the next step, which is the first that may write it: the
// scheduler frees pages while a step runs, too, when the device must not be asked for anything else.
class PoisoningStepper final : public engine::Stepper {
 public:
  PoisoningStepper(std::unique_ptr<engine::Stepper> inner, std::function<void(int32_t page)> poison)
      : inner_(std::move(inner)), poison_(std::move(poison)) {}

  // Any thread.
  void became_free(int32_t page) {
    const std::lock_guard lock(mutex_);
    free_.push_back(page);
  }
  [[nodiscard]] int32_t max_block_tokens() const override { return inner_->max_block_tokens(); }
  [[nodiscard]] int32_t max_rows() const override { return inner_->max_rows(); }
  engine::StepResult run(const engine::StepPlan& plan) override {
    std::vector<int32_t> pages;
    {
      const std::lock_guard lock(mutex_);
      pages.swap(free_);
    }
    for (const int32_t page : pages) poison_(page);
    return inner_->run(plan);
  }

 private:
  std::unique_ptr<engine::Stepper> inner_;
  std::function<void(int32_t page)> poison_;
  std::mutex mutex_;
  std::vector<int32_t> free_;
};

class RunningSystem {
 public:
  explicit RunningSystem(const tool::EngineOptions& options, bool poison_free_pages = false,
                         spec::AcceptRule rule = spec::accept) {
    auto assembled = tool::assemble(options);
    if (!assembled.ok()) throw std::runtime_error(assembled.message());
    system_ = std::move(assembled).value();
    text_ = tool::make_text_service(*system_->tokenizer, options.model_path);
    if (rule != spec::accept) tool::make_stepper(*system_, rule);
    if (poison_free_pages) poison();
    tool::start_scheduler(*system_);
  }

  [[nodiscard]] tool::System& system() { return *system_; }
  [[nodiscard]] std::vector<int32_t> chat_ids(const std::string& question) const {
    return text_
        ->encode_chat(nlohmann::json::array({{{"role", "user"}, {"content", question}}}), nlohmann::json::object())
        .value();
  }

  [[nodiscard]] std::vector<int32_t> text_ids(const std::string& text) const { return text_->encode(text).value(); }

  // All requests at once; the scheduler runs as many together as it may. Answers in the order of the requests.
  std::vector<Answer> run(std::vector<schedule::GenerateRequest> requests) {
    std::vector<Answer> answers(requests.size());
    std::mutex mutex;
    std::condition_variable done;
    size_t left = requests.size();
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto submitted = system_->scheduler->submit(std::move(requests[i]), [&, i](schedule::Chunk chunk) {
        Answer& answer = answers[i];
        answer.ids.insert(answer.ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
        answer.text += chunk.text;
        if (!chunk.finish) return;
        answer.finish = *chunk.finish;
        answer.usage = chunk.usage;
        std::lock_guard lock(mutex);
        if (--left == 0) done.notify_one();
      });
      if (!submitted.ok()) throw std::runtime_error(submitted.message());
    }
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return left == 0; });
    return answers;
  }

 private:
  // Whatever is not written holds NaN, now and whenever a page becomes free.
  void poison() {
    const auto fill = [this](int32_t page) {
      system_->target_store->poison(page);
      if (system_->draft_store) system_->draft_store->poison(page);
    };
    for (int32_t page = 0; page <= system_->pages->capacity_pages(); ++page) fill(page);
    auto stepper = std::make_unique<PoisoningStepper>(std::move(system_->stepper), fill);
    system_->pages->on_free([stepper = stepper.get()](int32_t page) { stepper->became_free(page); });
    system_->stepper = std::move(stepper);
  }

  std::unique_ptr<tool::System> system_;
  std::unique_ptr<serve::TextService> text_;
};

inline schedule::GenerateRequest greedy(std::vector<int32_t> prompt_ids, int32_t max_new_tokens) {
  schedule::GenerateRequest request{.prompt_ids = std::move(prompt_ids)};
  request.sampling.temperature = 0;
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

}  // namespace strobe::suite
