// Acceptance on a synthetic target: what it says depends on the last two tokens only, and everything is known about it.
#include "spec/acceptance.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "../engine/chi_square.h"
#include "kernel/ref/families.h"

namespace strobe::spec {
namespace {

using Ids = std::vector<int32_t>;
using engine::SamplingParams;
using engine::TokenChoice;

constexpr int32_t kVocab = 5;

// Any numbers will do, so long as they differ from context to context: here in [-1.5, 1.5].
float logit(int32_t before_last, int32_t last, int32_t token) {
  const auto seed = static_cast<uint64_t>(before_last * 100 + last * 10 + token);
  return static_cast<float>(3 * engine::uniform(seed, 0) - 1.5);
}

std::vector<float> logits_after(const Ids& text) {
  std::vector<float> logits;
  for (int32_t token = 0; token < kVocab; ++token) {
    logits.push_back(logit(text[text.size() - 2], text[text.size() - 1], token));
  }
  return logits;
}

// The verify pass over the last token of `text` and `drafted`.
class Verified {
 public:
  Verified(const Ids& text, const Ids& drafted, const SamplingParams& params, int32_t prompt_tokens)
      : text_(text), drafted_(drafted), params_(params) {
    Ids so_far = text_;
    for (size_t t = 0; t <= drafted_.size(); ++t) {
      const auto row = logits_after(so_far);
      numbers_.insert(numbers_.end(), row.begin(), row.end());
      argmax_.push_back(engine::argmax(row));
      if (t < drafted_.size()) so_far.push_back(drafted_[t]);
    }
    sequence_ = {.tokens = std::span(text_).last(1),
                 .first_position = static_cast<int32_t>(text_.size()) - 1,
                 .wants_token = true,
                 .block_tokens = static_cast<int32_t>(drafted_.size()) + 1,
                 .sampling = &params_,
                 .history = text_,
                 .prompt_tokens = prompt_tokens};
  }

  [[nodiscard]] engine::StepSequence& sequence() { return sequence_; }
  [[nodiscard]] std::vector<float>& numbers() { return numbers_; }
  [[nodiscard]] TokenChoice choice() {
    return {{.logits = Tensor(numbers_.data(), DType::kF32, {static_cast<int64_t>(argmax_.size()), kVocab}),
             .argmax = argmax_},
            sequence_,
            drafted_};
  }

 private:
  Ids text_, drafted_;
  SamplingParams params_;
  std::vector<float> numbers_;
  Ids argmax_;
  engine::StepSequence sequence_;
};

Ids greedy_text(Ids text, size_t count) {
  Ids added;
  while (added.size() < count) {
    added.push_back(engine::argmax(logits_after(text)));
    text.push_back(added.back());
  }
  return added;
}

// ---- greedy ----

TEST(AcceptGreedy, DraftsStandUpToTheFirstThatDiffers) {
  const SamplingParams greedy{.temperature = 0};
  const Ids text = {1, 2};
  const Ids right = greedy_text(text, 9);
  for (size_t drafts = 0; drafts <= 8; ++drafts) {
    for (size_t agreeing = 0; agreeing <= drafts; ++agreeing) {
      Ids drafted(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(drafts));
      // One wrong draft; those behind it agree with plain decoding again, and must count for nothing.
      if (agreeing < drafts) drafted[agreeing] = (drafted[agreeing] + 1) % kVocab;
      Verified verified(text, drafted, greedy, 2);
      const Ids expected(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(agreeing) + 1);
      EXPECT_EQ(accept(verified.choice(), drafted), expected) << agreeing << " of " << drafts;
    }
  }
}

TEST(AcceptGreedy, TopKOfOneIsGreedyAtAnyTemperature) {
  const SamplingParams params{.temperature = 2, .top_k = 1};
  const Ids text = {3, 0}, right = greedy_text(text, 4);
  const Ids drafted(right.begin(), right.begin() + 3);
  Verified verified(text, drafted, params, 2);
  EXPECT_EQ(accept(verified.choice(), drafted), right);
}

TEST(AcceptGreedy, PenaltiesAndBansMoveTheBestTokenAsInPlainDecoding) {
  SamplingParams params{.temperature = 0};
  params.frequency_penalty = 0.7F;
  params.repetition_penalty = 1.3F;
  const Ids prompt = {1, 2}, ends = {0, 3};
  constexpr int32_t kForbidden = 4;
  // Plain: one row at a time.
  Ids plain = prompt;
  for (int32_t i = 0; i < 8; ++i) {
    Verified one(plain, {}, params, 2);
    one.sequence().forbidden_early = ends;
    one.sequence().forbidden_rows = std::max(0, kForbidden - i);
    plain.push_back(one.choice().choose(0));
  }
  const Ids right(plain.begin() + 2, plain.end());
  EXPECT_NE(right, greedy_text(prompt, 8)) << "the penalties must matter here";
  for (size_t agreeing = 0; agreeing <= 7; ++agreeing) {
    Ids drafted(right.begin(), right.end() - 1);
    if (agreeing < 7) drafted[agreeing] = (drafted[agreeing] + 2) % kVocab;
    Verified verified(prompt, drafted, params, 2);
    verified.sequence().forbidden_early = ends;
    verified.sequence().forbidden_rows = kForbidden;
    const Ids expected(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(agreeing) + 1);
    EXPECT_EQ(accept(verified.choice(), drafted), expected) << agreeing;
  }
}

// ---- the law of sampling ----

using Rule = std::function<Ids(const TokenChoice&, const Ids& drafted)>;
using Drafter = std::function<Ids(const Ids& text)>;

constexpr size_t kTokens = 3;
constexpr size_t kTexts = kVocab * kVocab * kVocab;
constexpr int kRuns = 20000;
const Ids kPrompt = {4, 1};

size_t index_of(const Ids& three) {
  return static_cast<size_t>((three[0] * kVocab + three[1]) * kVocab + three[2]);
}

// How often each text of three tokens comes out, one seed a run.
std::vector<int64_t> texts_by(const Rule& rule, const Drafter& drafter, SamplingParams params) {
  std::vector<int64_t> counts(kTexts);
  for (int run = 0; run < kRuns; ++run) {
    params.seed = static_cast<uint64_t>(run) * 7919 + 3;
    Ids text = kPrompt;
    while (text.size() < kPrompt.size() + kTokens) {
      const Ids drafted = drafter(text);
      Verified verified(text, drafted, params, 2);
      const Ids emitted = rule(verified.choice(), drafted);
      text.insert(text.end(), emitted.begin(), emitted.end());
    }
    ++counts[index_of({text[2], text[3], text[4]})];
  }
  return counts;
}

// What plain decoding gives: by the softmax of the logits themselves, in double.
std::vector<double> softmax_law(double temperature) {
  std::vector<double> law(kTexts, 1);
  const auto probability = [&](const Ids& text, int32_t token) {
    double sum = 0;
    for (const float l : logits_after(text)) sum += std::exp(l / temperature);
    return std::exp(logits_after(text)[static_cast<size_t>(token)] / temperature) / sum;
  };
  for (int32_t a = 0; a < kVocab; ++a) {
    for (int32_t b = 0; b < kVocab; ++b) {
      for (int32_t c = 0; c < kVocab; ++c) {
        Ids text = kPrompt;
        for (const int32_t token : {a, b, c}) {
          law[index_of({a, b, c})] *= probability(text, token);
          text.push_back(token);
        }
      }
    }
  }
  return law;
}

// The same with filters and penalties: by the distributions of rows without drafts, which sampling_test.cc holds to
// their definitions.
std::vector<double> plain_law(const SamplingParams& params) {
  std::vector<double> law(kTexts, 1);
  for (int32_t a = 0; a < kVocab; ++a) {
    for (int32_t b = 0; b < kVocab; ++b) {
      for (int32_t c = 0; c < kVocab; ++c) {
        Ids text = kPrompt;
        for (const int32_t token : {a, b, c}) {
          law[index_of({a, b, c})] *= Verified(text, {}, params, 2).choice().distribution(0).probability(token);
          text.push_back(token);
        }
      }
    }
  }
  return law;
}

Ids standard_rule(const TokenChoice& choice, const Ids& drafted) {
  return accept(choice, drafted);
}

int32_t least_likely(const Ids& text) {
  const auto logits = logits_after(text);
  return static_cast<int32_t>(std::min_element(logits.begin(), logits.end()) - logits.begin());
}

struct NamedDrafter {
  const char* name;
  Drafter draft;
};

// Drafts may be anything that does not know the coins.
std::vector<NamedDrafter> drafters() {
  return {
      {"the greedy text", [](const Ids& text) { return greedy_text(text, 3); }},
      {"always the same token",
       [](const Ids&) {
         return Ids{2, 2, 2, 2};
       }},
      {"one draft", [](const Ids& text) { return greedy_text(text, 1); }},
      {"what is least likely",
       [](const Ids& text) {
         return Ids{least_likely(text), 0};
       }},
      {"lengths that change", [](const Ids& text) { return greedy_text(text, text.size() % 3); }},
  };
}

TEST(AcceptSampled, GivesTheLawOfPlainDecodingWhateverIsDrafted) {
  const SamplingParams params{.temperature = 1};
  const auto law = softmax_law(1);
  for (const auto& drafter : drafters()) {
    EXPECT_GT(chi_square_p(texts_by(standard_rule, drafter.draft, params), law), 1e-3) << drafter.name;
  }
}

TEST(AcceptSampled, GivesItAtOtherTemperatures) {
  const auto drafter = drafters()[0].draft;
  for (const float temperature : {0.4F, 3.0F}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_GT(chi_square_p(texts_by(standard_rule, drafter, params), softmax_law(temperature)), 1e-3) << temperature;
  }
}

TEST(AcceptSampled, GivesItWithFiltersAndPenalties) {
  SamplingParams params{.temperature = 1.3F, .top_p = 0.95F, .top_k = 4, .min_p = 0.05F};
  params.presence_penalty = 0.5F;
  params.frequency_penalty = 0.3F;
  params.repetition_penalty = 1.2F;
  params.logit_bias = {{3, 0.5F}};
  const auto law = plain_law(params);
  for (const auto& drafter : drafters()) {
    EXPECT_GT(chi_square_p(texts_by(standard_rule, drafter.draft, params), law), 1e-3) << drafter.name;
  }
}

// Not in law alone: each seed's text is the one that plain decoding gives it.
TEST(AcceptSampled, TextsAreThoseOfPlainDecoding) {
  SamplingParams filtered{.temperature = 1.3F, .top_p = 0.95F, .top_k = 4, .min_p = 0.05F};
  filtered.presence_penalty = 0.5F;
  filtered.repetition_penalty = 1.2F;
  int64_t accepted = 0;
  for (const SamplingParams& kind : {SamplingParams{.temperature = 1}, filtered}) {
    for (const auto& drafter : drafters()) {
      for (uint64_t seed = 0; seed < 500; ++seed) {
        SamplingParams params = kind;
        params.seed = seed;
        Ids plain = kPrompt, text = kPrompt;
        while (plain.size() < 20) plain.push_back(Verified(plain, {}, params, 2).choice().choose(0));
        while (text.size() < 20) {
          const Ids drafted = drafter.draft(text);
          const Ids emitted = accept(Verified(text, drafted, params, 2).choice(), drafted);
          accepted += std::ssize(emitted) - 1;
          text.insert(text.end(), emitted.begin(), emitted.end());
        }
        text.resize(20);
        ASSERT_EQ(text, plain) << drafter.name << ", seed " << seed;
      }
    }
  }
  EXPECT_GT(accepted, 5000);
}

// The other right rule: a draft stands with its probability, else the rest is drawn from.
int32_t sample_without(engine::Distribution d, int32_t excluded, double coin) {
  for (size_t i = 0; i < d.ids.size(); ++i) {
    if (d.ids[i] == excluded) d.weights[i] = 0;
  }
  return engine::sample(d, coin);
}

TEST(AcceptSampled, TheTestSeesWrongRules) {
  const SamplingParams params{.temperature = 1};
  const auto law = softmax_law(1);
  const Drafter drafter = drafters()[0].draft;
  const auto p_of = [&](const Rule& rule) { return chi_square_p(texts_by(rule, drafter, params), law); };
  // Two coins for each row: the first and the last bits of its number.
  const auto second = [](double coin) { return std::fmod(coin * 0x1p24, 1); };
  // The shape of every such rule: walk the drafts, accept or replace.
  const auto walk = [](const std::function<bool(double coin, double p)>& stands,
                       const std::function<int32_t(const engine::Distribution&, int32_t draft, double coin)>& replace) {
    return [=](const TokenChoice& choice, const Ids& drafted) {
      Ids tokens;
      for (const int32_t draft : drafted) {
        const auto t = static_cast<int64_t>(tokens.size());
        const auto d = choice.distribution(t);
        if (stands(choice.uniform(t), d.probability(draft))) {
          tokens.push_back(draft);
          continue;
        }
        tokens.push_back(replace(d, draft, choice.uniform(t)));
        return tokens;
      }
      tokens.push_back(choice.choose(static_cast<int64_t>(tokens.size())));
      return tokens;
    };
  };
  const auto below = [](double coin, double p) { return coin < p; };
  const auto without = [&](const engine::Distribution& d, int32_t draft, double coin) {
    return sample_without(d, draft, second(coin));
  };
  EXPECT_GT(p_of(walk(below, without)), 1e-3) << "the other right rule";
  EXPECT_LT(p_of(walk([](double, double) { return true; }, without)), 1e-6) << "every draft stands";
  EXPECT_LT(p_of(walk([](double coin, double p) { return coin < p * 1.1; }, without)), 1e-6) << "a little too kind";
  EXPECT_LT(p_of(walk(below, [&](const engine::Distribution& d, int32_t,
                                 double coin) { return engine::sample(d, second(coin)); })),
            1e-6)
      << "the refused draft may be drawn again";
  EXPECT_LT(p_of(walk(below, [](const engine::Distribution& d, int32_t draft,
                                double coin) { return sample_without(d, draft, coin); })),
            1e-6)
      << "one coin used twice";
}

// ---- as a device does it ----

// DrawTokens and AcceptGreedy yield what accept() does.
TEST(AcceptSampled, DrawnTokensAcceptTheSame) {
  WorkerPool pool(1);
  int64_t accepted_drafts = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SamplingParams params{.temperature = 0.5F + 0.1F * static_cast<float>(seed % 10), .seed = seed};
    if (seed % 2 == 0) params.top_k = 2 + static_cast<int32_t>(seed % 3);
    if (seed % 3 == 0) params.top_p = 0.7F;
    if (seed % 5 == 0) params.min_p = 0.3F;
    const Ids text = {static_cast<int32_t>(seed % 5), 2};
    const Ids drafted = greedy_text(text, seed % 4);
    Verified verified(text, drafted, params, 2);
    const Ids expected = accept(verified.choice(), drafted);

    const auto rows = static_cast<int32_t>(drafted.size()) + 1;
    Ids ids = {text.back()}, positions, tokens, slots(static_cast<size_t>(rows), 7),
        committed(static_cast<size_t>(rows));
    ids.insert(ids.end(), drafted.begin(), drafted.end());
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(1 + r);
      tokens.push_back(verified.choice().best(r));
    }
    const kernel::DrawParams draw = engine::draw_params(params);
    const kernel::Blocks blocks{.block_tokens = &rows, .sequences = 1, .block_rows = rows};
    kernel::ref::draw_tokens(pool, {.blocks = blocks,
                                    .params = &draw,
                                    .logits = verified.numbers().data(),
                                    .stride = kVocab,
                                    .columns = kVocab,
                                    .positions = positions.data(),
                                    .tokens = tokens.data()});
    int32_t accepted = 0;
    kernel::ref::accept_greedy({.blocks = blocks,
                                .ids = ids.data(),
                                .best = tokens.data(),
                                .slots = slots.data(),
                                .accepted = &accepted,
                                .committed = committed.data()});
    Ids emitted(drafted.begin(), drafted.begin() + accepted);
    emitted.push_back(tokens[static_cast<size_t>(accepted)]);
    ASSERT_EQ(emitted, expected) << "seed " << seed;
    const engine::StepOutput output = accept_drawn(tokens, drafted);
    EXPECT_EQ(output.tokens, expected);
    EXPECT_EQ(output.accepted, accepted);
    EXPECT_EQ(output.drafted, rows - 1);
    accepted_drafts += accepted;
  }
  EXPECT_GT(accepted_drafts, 500);
}

// ---- borders ----

TEST(AcceptSampled, BannedDraftsNeverStand) {
  const Ids text = {1, 2}, drafted = {3, 1}, ends = {3};
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const SamplingParams params{.temperature = 1, .seed = seed};
    Verified verified(text, drafted, params, 2);
    verified.sequence().forbidden_early = ends;
    verified.sequence().forbidden_rows = 1;
    const Ids emitted = accept(verified.choice(), drafted);
    ASSERT_EQ(emitted.size(), 1U);
    ASSERT_NE(emitted[0], 3);
  }
}

TEST(AcceptSampled, ACertainTokenStands) {
  const Ids text = {1, 2}, drafted = {3};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SamplingParams params{.temperature = 1, .seed = seed};
    Verified verified(text, drafted, params, 2);
    for (size_t i = 0; i < kVocab; ++i) verified.numbers()[i] = i == 3 ? 100.0F : -100.0F;
    ASSERT_EQ(accept(verified.choice(), drafted)[0], 3);
  }
}

TEST(AcceptSampled, WithoutDraftsItIsPlainDecoding) {
  const Ids text = {1, 2};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SamplingParams params{.temperature = 1, .seed = seed};
    Verified verified(text, {}, params, 2);
    EXPECT_EQ(accept(verified.choice(), {}), (Ids{verified.choice().choose(0)}));
  }
}

}  // namespace
}  // namespace strobe::spec
