#include "engine/token_choice.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace strobe::engine {

namespace {

// Whether the logits of the step's row t are used as the model gave them.
bool is_raw(const StepSequence& sequence, int64_t t) {
  return !sequence.sampling->changes_logits() && (t >= sequence.forbidden_rows || sequence.forbidden_early.empty());
}

}  // namespace

ChoiceWork choice_work(const StepSequence& sequence) {
  if (!sequence.wants_token) return ChoiceWork::kBest;
  const SamplingParams& sampling = *sequence.sampling;
  if (!is_raw(sequence, 0) || sampling.logprobs) return ChoiceWork::kHost;
  return sampling.greedy() ? ChoiceWork::kBest : ChoiceWork::kDraw;
}

ChoiceWork choice_work(const StepPlan& plan, int64_t vocab) {
  auto work = ChoiceWork::kBest;
  for (const StepSequence& sequence : plan.sequences) work = std::max(work, choice_work(sequence));
  return work == ChoiceWork::kDraw && vocab > kernel::kMostDrawColumns ? ChoiceWork::kHost : work;
}

TokenChoice::TokenChoice(const RowLogits& rows, const StepSequence& sequence, std::span<const int32_t> drafted)
    : rows_(rows), sequence_(sequence), drafted_(drafted) {
  STROBE_CHECK(sequence.sampling != nullptr, "a sequence that wants a token needs sampling parameters");
  STROBE_CHECK(rows.argmax.size() == drafted.size() + 1, "{} rows, {} drafts", rows.argmax.size(), drafted.size());
}

std::span<const float> TokenChoice::adjusted(int64_t t) const {
  const std::span<const float> logits = rows_.row(t);
  if (is_raw(sequence_, t)) return logits;
  scratch_.assign(logits.begin(), logits.end());
  adjust_logits(scratch_, *sequence_.sampling,
                {.tokens = sequence_.history,
                 .prompt_tokens = sequence_.prompt_tokens,
                 .drafted = drafted_.subspan(0, static_cast<size_t>(t))});
  if (t < sequence_.forbidden_rows) {
    for (const int32_t id : sequence_.forbidden_early) {
      if (id >= 0 && static_cast<size_t>(id) < scratch_.size()) {
        scratch_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return scratch_;
}

int32_t TokenChoice::best(int64_t t) const {
  return is_raw(sequence_, t) ? rows_.argmax[static_cast<size_t>(t)] : argmax(adjusted(t));
}

Distribution TokenChoice::distribution(int64_t t) const {
  return make_distribution(adjusted(t), *sequence_.sampling);
}

double TokenChoice::uniform(int64_t t) const {
  const int64_t position = sequence_.first_position + static_cast<int64_t>(sequence_.tokens.size()) + t;
  return engine::uniform(sequence_.sampling->seed, position);
}

int32_t TokenChoice::choose(int64_t t) const {
  if (sequence_.sampling->greedy()) return best(t);
  return sample(distribution(t), uniform(t));
}

std::vector<TokenLogprobs> TokenChoice::logprobs(std::span<const int32_t> chosen) const {
  std::vector<TokenLogprobs> list;
  if (!sequence_.sampling->logprobs) return list;
  for (size_t t = 0; t < chosen.size(); ++t) {
    list.push_back(token_logprobs(rows_.row(static_cast<int64_t>(t)), chosen[t], *sequence_.sampling->logprobs));
  }
  return list;
}

}  // namespace strobe::engine
