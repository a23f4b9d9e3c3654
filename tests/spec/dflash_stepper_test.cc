// DFlash against plain decoding, and against itself in other company, on everything that this machine can run kernels
// on, recorded and not. Every cache is full of NaN before its use.
#include "spec/dflash_stepper.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/stopwatch.h"
#include "conversation.h"

namespace strobe::spec {
namespace {

class Dflash : public testing::TestWithParam<const model::Platform*> {
 protected:
  [[nodiscard]] static bool reference() { return GetParam()->activation == DType::kF32; }
  [[nodiscard]] static Pocket& pocket() { return lone_pocket(*GetParam()); }
  [[nodiscard]] static DType bf16() { return plain_kv(*GetParam()); }
  [[nodiscard]] static bool best() {
    return GetParam()->cpu == nullptr || GetParam()->cpu == &kernel::cpu_kernels(best_cpu_isa());
  }
  // Tokens a text: the slower tables say less.
  [[nodiscard]] static int32_t count() { return best() ? 48 : reference() ? 16 : 24; }
  // Pages of text i out of several: scattered, and in nobody else's.
  [[nodiscard]] static Ids pages_of(int32_t i) {
    Ids pages;
    for (int32_t k = 0; k < 5; ++k) pages.push_back(((i * 5 + k) * 5 + 3) % (Pocket::kPages - 1) + 1);
    return pages;
  }
};

struct Setting {
  int kv;      // of three: fp8 and fp8, fp8 and bf16, bf16 and bf16 (target, draft)
  int prompt;  // of three: a word problem, one token, prose of 110 tokens
  int32_t block;
  int32_t window;
};

// Every combination on the best kernels; on the others each value with each other one at least once.
std::vector<Setting> settings(bool all) {
  if (!all) return {{0, 0, 8, 4096}, {0, 1, 2, 16}, {1, 0, 4, 16}, {1, 1, 8, 4096}, {2, 0, 2, 4096}, {2, 1, 4, 16}};
  std::vector<Setting> list;
  for (int kv = 0; kv < 3; ++kv) {
    for (int prompt = 0; prompt < 3; ++prompt) {
      for (const int32_t block : {2, 4, 8}) {
        for (const int32_t window : {16, 4096}) list.push_back({kv, prompt, block, window});
      }
    }
  }
  return list;
}

TEST_P(Dflash, GreedyEqualsPlain) {
  const std::pair<DType, DType> caches[] = {{DType::kE4m3, DType::kE4m3}, {DType::kE4m3, bf16()}, {bf16(), bf16()}};
  const Ids prompts[] = {trace_prompt("wordproblem_08"), {3843}, trace_prompt("prose_6")};
  // Pages of 16: a window of 16 then leaves things out from 32 tokens on.
  constexpr int32_t kPageSize = 16;
  Ids pages;
  for (int32_t i = 0; i < 12; ++i) pages.push_back(3 + i * 7);
  std::map<std::pair<int, int>, Ids> plain_answers;
  int64_t drafted = 0, accepted = 0;
  for (const Setting& setting : settings(best())) {
    const auto& [target_kv, draft_kv] = caches[setting.kv];
    const Ids& prompt = prompts[setting.prompt];
    Ids& expected = plain_answers[{setting.kv, setting.prompt}];
    if (expected.empty()) {
      Stage alone(pocket(), target_kv, draft_kv, kPageSize);
      Speaker plain(prompt, pages);
      auto plain_stepper = alone.plain();
      speak(plain_stepper, {&plain}, count(), {});
      expected = plain.answer(count());
    }
    Stage stage(pocket(), target_kv, draft_kv, kPageSize);
    Speaker fast(prompt, pages);
    auto stepper = stage.dflash(setting.block, setting.window);
    speak(stepper, {&fast}, count(), {.block_tokens = setting.block});
    EXPECT_EQ(fast.answer(count()), expected)
        << "block " << setting.block << ", window " << setting.window << ", caches " << to_string(target_kv) << " "
        << to_string(draft_kv) << ", prompt of " << prompt.size();
    drafted += std::ssize(fast.accepted) * (setting.block - 1);
    accepted += std::accumulate(fast.accepted.begin(), fast.accepted.end(), int64_t{0});
  }
  // Else nothing was compared but plain decoding with itself. (One of the prompts is of the draft's own kind.)
  EXPECT_GT(accepted * 10, drafted) << accepted << " of " << drafted;
  EXPECT_LT(accepted, drafted);
}

// Prompts in the expanded form of latent attention: where they are cut alike and read alone, DFlash still says what
// plain decoding says, since blocks are never expanded.
TEST_P(Dflash, GreedyEqualsPlainAfterExpandedPrompts) {
  const model::Recipe expanding = pocket().expanding_recipe(74);
  const Ids prompt = trace_prompt("prose_6");
  ASSERT_GT(prompt.size(), 74U);
  Stage alone(pocket(), DType::kE4m3, bf16(), Pocket::kPageSize, &expanding);
  Stage stage(pocket(), DType::kE4m3, bf16(), Pocket::kPageSize, &expanding);
  Speaker plain(prompt, pages_of(0)), fast(prompt, pages_of(1)), absorbed(prompt, pages_of(2));
  auto plain_stepper = alone.plain();
  speak(plain_stepper, {&plain}, count(), {});
  auto stepper = stage.dflash(8);
  speak(stepper, {&fast}, count(), {.block_tokens = 8});
  EXPECT_EQ(fast.answer(count()), plain.answer(count()));
  const auto stored = [](Stage& of, const Speaker& speaker) {
    return stored_bytes(of.target_store(), speaker.pages, speaker.prompt_tokens);
  };
  EXPECT_EQ(stored(stage, fast), stored(alone, plain));
  Stage without(pocket(), DType::kE4m3, bf16());
  auto without_stepper = without.plain();
  step(without_stepper, std::vector<Speaker*>{&absorbed}, {});
  EXPECT_NE(stored(without, absorbed), stored(alone, plain)) << "nothing was expanded";
}

TEST_P(Dflash, PenaltiesAndBansEqualPlain) {
  const Ids prompt = trace_prompt("wordproblem_01");
  engine::SamplingParams params{.temperature = 0};
  params.repetition_penalty = 1.5F;
  params.frequency_penalty = 2;
  params.logit_bias = {{15, 5.0F}, {36, -100.0F}};  // 36: what the answer begins with otherwise
  const auto speaker = [&](int32_t i) {
    Speaker s(prompt, pages_of(i));
    s.sampling = params;
    s.end_tokens = {292, 3842};
    s.min_new_tokens = 12;
    return s;
  };
  Stage alone(pocket(), DType::kE4m3, bf16()), stage(pocket(), DType::kE4m3, bf16());
  Speaker plain = speaker(0), fast = speaker(1), bare(prompt, pages_of(2));
  auto plain_stepper = alone.plain();
  speak(plain_stepper, {&plain, &bare}, count(), {});
  auto stepper = stage.dflash(8);
  speak(stepper, {&fast}, count(), {.block_tokens = 8});
  EXPECT_EQ(fast.answer(count()), plain.answer(count()));
  EXPECT_NE(plain.answer(count()), bare.answer(count())) << "the penalties must matter here";
  for (const int32_t token : fast.answer(12)) EXPECT_TRUE(token != 292 && token != 3842);
}

// Row j of a verify pass says what plain decoding says there: the same numbers, for every accepted token, and whatever
// biases and penalties make of the row's logits.
TEST_P(Dflash, LogprobsEqualPlain) {
  const Ids prompt = trace_prompt("wordproblem_01");
  int32_t accepted = 0;
  for (const bool biased : {false, true}) {
    const auto speaker = [&](int32_t i) {
      Speaker s(prompt, pages_of(i));
      if (biased) {
        s.sampling.frequency_penalty = 1;
        s.sampling.logit_bias = {{36, -100.0F}};  // what the answer begins with otherwise
      }
      s.sampling.logprobs = 3;
      return s;
    };
    Stage alone(pocket(), DType::kE4m3, bf16()), stage(pocket(), DType::kE4m3, bf16());
    Speaker plain = speaker(0), fast = speaker(1);
    auto plain_stepper = alone.plain();
    speak(plain_stepper, {&plain}, count(), {});
    auto stepper = stage.dflash(8);
    speak(stepper, {&fast}, count(), {.block_tokens = 8});
    ASSERT_EQ(fast.answer(count()), plain.answer(count()));
    ASSERT_EQ(std::ssize(plain.logprobs), plain.said());
    ASSERT_EQ(std::ssize(fast.logprobs), fast.said());
    int32_t not_the_best = 0;
    for (size_t i = 0; i < static_cast<size_t>(count()); ++i) {
      const engine::TokenLogprobs &expected = plain.logprobs[i], &got = fast.logprobs[i];
      EXPECT_EQ(got, expected) << "token " << i << ": " << got.logprob << " and " << expected.logprob;
      EXPECT_LE(expected.logprob, 0);
      ASSERT_EQ(expected.top.size(), 3U);
      if (expected.top[0].first != plain.tokens[prompt.size() + i]) {
        ++not_the_best;
      } else {
        EXPECT_EQ(expected.top[0].second, expected.logprob);
      }
    }
    EXPECT_EQ(not_the_best > 0, biased) << "a bias changes choices, not what the model says";
    accepted += std::accumulate(fast.accepted.begin(), fast.accepted.end(), 0);
  }
  EXPECT_GT(accepted, 0) << "no accepted row was compared";
}

TEST_P(Dflash, ATextDoesNotDependOnItsCompany) {
  std::vector<Ids> list = {trace_prompt("wordproblem_04"), {3843}, trace_prompt("prose_0"), trace_prompt("prose_3")};
  const auto speaker = [&](int32_t i) {
    Speaker s(list[static_cast<size_t>(i)], pages_of(i));
    if (i == 3) s.sampling = {.temperature = 0.9F, .top_p = 0.95F, .seed = 77};  // its coins are its own too
    return s;
  };
  const StepOptions options{.block_tokens = 8, .chunk_tokens = 30};  // some read while others speak
  Stage together(pocket(), DType::kE4m3, bf16());
  std::vector<Speaker> speakers;
  for (int32_t i = 0; i < 4; ++i) speakers.push_back(speaker(i));
  auto stepper = together.dflash(8);
  speak(stepper, {&speakers[0], &speakers[1], &speakers[2], &speakers[3]}, count(), options);
  for (int32_t i = 0; i < 4; ++i) {
    Stage stage(pocket(), DType::kE4m3, bf16());
    Speaker alone = speaker(i);
    auto lone_stepper = stage.dflash(8);
    speak(lone_stepper, {&alone}, count(), options);
    const Speaker& one = speakers[static_cast<size_t>(i)];
    EXPECT_EQ(one.tokens, alone.tokens) << "text " << i;
    EXPECT_EQ(one.accepted, alone.accepted) << "text " << i;
    EXPECT_EQ(stored_bytes(together.draft_store(), one.pages, one.committed),
              stored_bytes(stage.draft_store(), alone.pages, alone.committed))
        << "text " << i;
  }
}

TEST_P(Dflash, BlocksOfDifferentLengthsGoTogether) {
  // Plain rows, blocks of two lengths and a prompt in one plan.
  const Ids prompt = trace_prompt("wordproblem_04");
  Stage alone(pocket(), DType::kE4m3, bf16()), stage(pocket(), DType::kE4m3, bf16());
  Speaker plain(prompt, pages_of(0));
  auto plain_stepper = alone.plain();
  speak(plain_stepper, {&plain}, count(), {});
  auto stepper = stage.dflash(8);
  std::vector<Speaker> speakers;
  for (int32_t i = 0; i < 4; ++i) speakers.emplace_back(prompt, pages_of(i));
  for (size_t i = 0; i < 3; ++i) {
    Speaker* reader = &speakers[i];
    step(stepper, {&reader, 1}, {});
  }
  bool all_done = false;
  while (!all_done) {
    engine::StepPlan plan;
    std::vector<Speaker*> who;
    all_done = true;
    for (size_t i = 0; i < 4; ++i) {
      Speaker& s = speakers[i];
      if (s.said() >= count()) continue;
      all_done = false;
      constexpr int32_t kBlocks[] = {1, 3, 8, 5};
      plan.sequences.push_back({.tokens = std::span(s.tokens).subspan(static_cast<size_t>(s.committed)),
                                .first_position = s.committed,
                                .pages = s.pages,
                                .wants_token = true,
                                .block_tokens = s.said() == 0 ? 1 : kBlocks[i],
                                .sampling = &s.sampling});
      who.push_back(&s);
    }
    const auto result = stepper.run(plan);
    for (size_t i = 0; i < who.size(); ++i) {
      EXPECT_LE(std::ssize(result.outputs[i].tokens), plan.sequences[i].block_tokens);
      who[i]->committed += static_cast<int32_t>(plan.sequences[i].tokens.size()) + result.outputs[i].accepted;
      who[i]->tokens.insert(who[i]->tokens.end(), result.outputs[i].tokens.begin(), result.outputs[i].tokens.end());
    }
  }
  for (const Speaker& s : speakers) EXPECT_EQ(s.answer(count()), plain.answer(count()));
}

TEST_P(Dflash, ChunksOfAPromptEqualTheWhole) {
  const Ids prompt = trace_prompt("prose_0");  // 83 tokens: more than a page
  const std::vector<int32_t> sizes = reference() ? std::vector<int32_t>{7, 64} : std::vector<int32_t>{1, 7, 64};
  const auto n = static_cast<int32_t>(prompt.size());
  Stage whole_stage(pocket(), DType::kE4m3, bf16());
  Speaker whole(prompt, pages_of(0));
  auto whole_stepper = whole_stage.dflash(8);
  speak(whole_stepper, {&whole}, count(), {.block_tokens = 8});
  for (const int32_t size : sizes) {
    Stage stage(pocket(), DType::kE4m3, bf16());
    Speaker chunked(prompt, pages_of(1));
    auto stepper = stage.dflash(8);
    speak(stepper, {&chunked}, count(), {.block_tokens = 8, .chunk_tokens = size});
    EXPECT_EQ(chunked.tokens, whole.tokens) << "chunks of " << size;
    EXPECT_EQ(chunked.accepted, whole.accepted) << "chunks of " << size;
    EXPECT_EQ(stored_bytes(stage.target_store(), chunked.pages, n),
              stored_bytes(whole_stage.target_store(), whole.pages, n))
        << "chunks of " << size;
    EXPECT_EQ(stored_bytes(stage.draft_store(), chunked.pages, n),
              stored_bytes(whole_stage.draft_store(), whole.pages, n))
        << "chunks of " << size;
  }
}

TEST_P(Dflash, APlainStretchLeavesNoHoleInTheDraftsContext) {
  const Ids prompt = trace_prompt("wordproblem_08");
  const auto n = static_cast<int32_t>(prompt.size());
  Stage always_stage(pocket(), DType::kE4m3, bf16()), stage(pocket(), DType::kE4m3, bf16());
  Speaker always(prompt, pages_of(0)), later(prompt, pages_of(1));
  auto always_stepper = always_stage.dflash(8), stepper = stage.dflash(8);
  Speaker *const one[] = {&always}, *const two[] = {&later};
  while (always.committed < n + 10) step(always_stepper, one, {.block_tokens = 8});
  const size_t steps_before = always.accepted.size();
  int32_t plain_steps = -1;  // the first one reads the prompt
  while (later.committed < always.committed) {
    step(stepper, two, {});
    ++plain_steps;
  }
  ASSERT_GE(plain_steps, 10);
  ASSERT_EQ(later.tokens, always.tokens);
  ASSERT_EQ(later.committed, always.committed);
  EXPECT_EQ(stored_bytes(stage.draft_store(), later.pages, later.committed),
            stored_bytes(always_stage.draft_store(), always.pages, always.committed));
  EXPECT_EQ(stage.drafts(later, 8), always_stage.drafts(always, 8));
  speak(always_stepper, {&always}, 32, {.block_tokens = 8});
  speak(stepper, {&later}, 32, {.block_tokens = 8});
  EXPECT_EQ(later.tokens, always.tokens);
  EXPECT_EQ(later.accepted, std::vector<int32_t>(always.accepted.begin() + static_cast<std::ptrdiff_t>(steps_before),
                                                 always.accepted.end()));
}

TEST_P(Dflash, PagesAreOnlyAPlaceToPutThings) {
  const Ids prompt = trace_prompt("wordproblem_03");
  std::vector<Speaker> speakers;
  for (const int32_t page_size : {64, 16, 1}) {
    Stage stage(pocket(), DType::kE4m3, bf16(), page_size);
    const int32_t pages = Pocket::kPages * Pocket::kPageSize / page_size;
    Ids mine;
    for (int32_t i = 0; i * page_size < 192; ++i) mine.push_back(pages - 1 - i);
    Speaker& s = speakers.emplace_back(prompt, mine);
    auto stepper = stage.dflash(8);
    speak(stepper, {&s}, count(), {.block_tokens = 8});
    EXPECT_EQ(s.tokens, speakers[0].tokens) << "pages of " << page_size;
    EXPECT_EQ(s.accepted, speakers[0].accepted) << "pages of " << page_size;
  }
}

// The draft reads nothing before its window: what lies there may as well be NaN. The target still reads it.
TEST_P(Dflash, TheWindowIsWhereTheDraftsContextBegins) {
  const Ids prompt = trace_prompt("wordproblem_02");
  ASSERT_EQ(prompt.size(), 68U);
  const auto accepted = [&](int32_t window, bool spoil) {
    Stage stage(pocket(), DType::kE4m3, bf16(), 16);
    Speaker s(prompt, {60, 50, 40, 30, 20, 10, 9, 8});
    Speaker* const one[] = {&s};
    auto stepper = stage.dflash(8, window);
    step(stepper, one, {});
    if (spoil) {
      for (const int32_t page : {60, 50, 40}) stage.draft_store().poison(page);  // positions 0 ... 47
    }
    speak(stepper, {&s}, 10, {.block_tokens = 8});
    return s.accepted;
  };
  // With 68 committed a window of 20 begins at 48, one of 21 at 47, in the page before.
  EXPECT_EQ(accepted(20, true), accepted(20, false));
  EXPECT_NE(accepted(21, true), accepted(21, false));
  if (best()) {
    EXPECT_NE(accepted(0, true), accepted(0, false));
  }
}

TEST_P(Dflash, ThreadsChangeNothing) {
  const Ids prompt = trace_prompt("wordproblem_05");
  Pocket more(*GetParam(), 3);
  Stage one_stage(pocket(), DType::kE4m3, bf16()), three_stage(more, DType::kE4m3, bf16());
  Speaker one(prompt, pages_of(0)), three(prompt, pages_of(1));
  auto one_stepper = one_stage.dflash(8), three_stepper = three_stage.dflash(8);
  speak(one_stepper, {&one}, 16, {.block_tokens = 8});
  speak(three_stepper, {&three}, 16, {.block_tokens = 8});
  EXPECT_EQ(three.tokens, one.tokens);
  EXPECT_EQ(stored_bytes(three_stage.target_store(), three.pages, three.committed),
            stored_bytes(one_stage.target_store(), one.pages, one.committed));
  EXPECT_EQ(stored_bytes(three_stage.draft_store(), three.pages, three.committed),
            stored_bytes(one_stage.draft_store(), one.pages, one.committed));
}

// Stages lie one after the other inside the step, and timing them changes no text.
TEST_P(Dflash, ATimedStepTellsItsStages) {
  using engine::StageSpan;
  constexpr double kResolutionMs = 0.001;  // of a device's clock
  const Ids prompt = trace_prompt("wordproblem_01");
  const bool queued = GetParam()->cpu == nullptr;
  for (const float temperature : {0.0F, 0.8F}) {  // a step of one recording, or of two with the host between
    Stage plain_stage(pocket(), DType::kE4m3, bf16()), stage(pocket(), DType::kE4m3, bf16());
    Speaker untimed(prompt, pages_of(0)), timed(prompt, pages_of(1));
    for (Speaker* s : {&untimed, &timed}) s->sampling = {.temperature = temperature, .seed = 5};
    auto untimed_stepper = plain_stage.dflash(8), stepper = stage.dflash(8);
    speak(untimed_stepper, {&untimed}, 16, {.block_tokens = 8});
    Speaker* const one[] = {&timed};
    step(stepper, one, {.timed = true});  // reads the prompt
    while (timed.said() < 16) {
      Stopwatch watch;
      const engine::StepTimes times = step(stepper, one, {.block_tokens = 8, .timed = true});
      const double step_ms = watch.lap_ms();
      EXPECT_GT(times.draft_ms, 0);
      EXPECT_GT(times.target_ms, 0);
      EXPECT_GT(times.accept_ms, 0);
      EXPECT_GT(times.commit_ms, 0);
      EXPECT_LE(times.draft_ms + times.target_ms + times.accept_ms + times.commit_ms, step_ms);
      ASSERT_EQ(times.device.has_value(), queued);
      if (!queued) continue;
      double end_ms = 0;
      for (const StageSpan& span : {times.device->draft, times.device->target, times.device->commit}) {
        EXPECT_GT(span.ms, 0);
        EXPECT_GE(span.begin_ms, end_ms - kResolutionMs);
        end_ms = span.begin_ms + span.ms;
      }
      EXPECT_LE(end_ms, step_ms);
    }
    EXPECT_EQ(timed.answer(16), untimed.answer(16)) << "temperature " << temperature;
    EXPECT_EQ(timed.accepted, untimed.accepted);
  }
}

TEST_P(Dflash, ATimedPlainStepTellsItsPass) {
  Stage stage(pocket(), DType::kE4m3, bf16());
  auto plain = stage.plain();
  auto without_blocks = stage.dflash(8);
  for (engine::Stepper* stepper : std::initializer_list<engine::Stepper*>{&plain, &without_blocks}) {
    Speaker speaker(trace_prompt("wordproblem_01"), pages_of(0));
    Speaker* const one[] = {&speaker};
    for (int i = 0; i < 5; ++i) {
      Stopwatch watch;
      const engine::StepTimes times = step(*stepper, one, {.timed = true});
      const double step_ms = watch.lap_ms();
      EXPECT_GT(times.target_ms, 0);
      ASSERT_EQ(times.device.has_value(), GetParam()->cpu == nullptr);
      if (!times.device) continue;
      EXPECT_GT(times.device->target.ms, 0);
      EXPECT_LE(times.device->target.begin_ms + times.device->target.ms, step_ms);
      EXPECT_EQ(times.device->draft.ms, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pocket, Dflash, testing::ValuesIn(model::stepping_platforms_here()),
                         [](const auto& param_info) { return std::string(param_info.param->name); });

TEST(DflashStepperDeathTest, WhatItRefuses) {
  Pocket& pocket = lone_pocket(*model::platforms_here().back());
  Stage stage(pocket, DType::kE4m3, DType::kE4m3);
  EXPECT_DEATH(static_cast<void>(stage.dflash(1)), "block_tokens = 1");
  auto stepper = stage.dflash(4);
  const Ids two = {5, 6}, pages = {1};
  const engine::SamplingParams greedy{.temperature = 0};
  engine::StepPlan plan;
  plan.sequences.push_back(
      {.tokens = two, .pages = pages, .wants_token = true, .block_tokens = 4, .sampling = &greedy});
  EXPECT_DEATH(static_cast<void>(stepper.run(plan)), "2 fed tokens, block of 4");
  plan.sequences[0].tokens = std::span(two).first(1);
  plan.sequences[0].block_tokens = 5;
  EXPECT_DEATH(static_cast<void>(stepper.run(plan)), "1 fed tokens, block of 5");
}

}  // namespace
}  // namespace strobe::spec
