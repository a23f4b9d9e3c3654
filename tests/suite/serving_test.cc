// The same 200 prompts, however they are served: alone or together, from a cold cache or after prefix hits, prompts
// read whole or in chunks, with pages enough or with preemption, with DFlash or without. Texts are the same byte for
// byte, and every request accepts as many drafts in its steps. Pages that are free hold NaN.
#include <gtest/gtest.h>

#include "system.h"

namespace strobe::suite {
namespace {

constexpr int32_t kMaxNewTokens = 64;

std::vector<schedule::GenerateRequest> mixed_requests(const RunningSystem& system) {
  std::vector<schedule::GenerateRequest> list;
  for (const auto& line : read_json_lines(source_dir() / "tests/data/wordproblems.jsonl")) {
    if (list.size() < 150) list.push_back(greedy(system.chat_ids(line.at("question")), kMaxNewTokens));
  }
  for (const auto& line : read_json_lines(source_dir() / "tests/data/prose.jsonl")) {
    list.push_back(greedy(system.chat_ids(line.at("prompt")), kMaxNewTokens));
  }
  return list;
}

struct Way {
  const char* name;
  int32_t running;
  int32_t chunk = 512;
  int64_t tokens = 32768;
  bool dflash = true;
  bool hits = false;  // the prompts a second time
};

tool::EngineOptions options_for(const Way& way) {
  tool::EngineOptions options = pocket_options(way.dflash);
  options.max_running_requests = way.running;
  options.chunked_prefill_size = way.chunk;
  options.max_total_tokens = way.tokens;
  options.page_size = 16;                                       // several pages a prompt
  if (way.dflash) options.speculative_min_accept_length = "3";  // many change to and fro between blocks and plain steps
  return options;
}

// Sixteen at a time, cold.
const std::vector<Answer>& expected(bool dflash) {
  static std::array<std::vector<Answer>, 2> known;
  auto& answers = known[dflash ? 1 : 0];
  if (answers.empty()) {
    RunningSystem system(options_for({.name = "expected", .running = 16, .dflash = dflash}));
    answers = system.run(mixed_requests(system));
  }
  return answers;
}

class Serving : public testing::TestWithParam<Way> {};

void expect_same(const std::vector<Answer>& answers, const Way& way) {
  const auto& wanted = expected(way.dflash);
  const auto& plain = expected(false);
  ASSERT_EQ(answers.size(), 200U);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_NE(answers[i].finish.reason, schedule::FinishReason::kAbort) << answers[i].finish.message;
    EXPECT_EQ(answers[i].ids, plain[i].ids) << "prompt " << i;
    EXPECT_EQ(answers[i].text, plain[i].text) << "prompt " << i;
    EXPECT_EQ(answers[i].usage.accept_histogram, wanted[i].usage.accept_histogram) << "prompt " << i;
    EXPECT_EQ(answers[i].usage.held_back_steps, wanted[i].usage.held_back_steps) << "prompt " << i;
    EXPECT_EQ(answers[i].usage.completion_tokens, wanted[i].usage.completion_tokens) << "prompt " << i;
  }
}

TEST_P(Serving, TheSameTextsAndAcceptCounts) {
  const Way way = GetParam();
  RunningSystem system(options_for(way), /*poison_free_pages=*/true);
  expect_same(system.run(mixed_requests(system)), way);
  const auto stats = system.system().scheduler->stats();
  EXPECT_EQ(stats.preemptions_total > 0, way.tokens < 32768) << stats.preemptions_total;
  if (!way.hits) return;
  const auto again = system.run(mixed_requests(system));
  expect_same(again, way);
  int32_t cached = 0;
  for (const Answer& answer : again) cached += answer.usage.cached_tokens > 0 ? 1 : 0;
  EXPECT_GT(cached, 150);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Serving,
    testing::Values(Way{.name = "one", .running = 1}, Way{.name = "four", .running = 4},
                    Way{.name = "sixteen_and_again", .running = 16, .hits = true},
                    Way{.name = "sixtyfour", .running = 64}, Way{.name = "chunks_of_a_few", .running = 2, .chunk = 19},
                    Way{.name = "preempted", .running = 16, .tokens = 1024},
                    Way{.name = "preempted_in_chunks", .running = 64, .chunk = 512, .tokens = 2048, .hits = false},
                    Way{.name = "plain_sixteen_and_again", .running = 16, .dflash = false, .hits = true},
                    Way{.name = "plain_preempted", .running = 64, .tokens = 2048, .dflash = false}),
    [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace strobe::suite
