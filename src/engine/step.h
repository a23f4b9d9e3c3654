// One engine step: what the scheduler asks (StepPlan), what it gets (StepResult), and who does it (Stepper). Only
// values travel.
//
// A step feeds rows of several requests through the target in one pass: chunks of prompts and decode rows together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/logprobs.h"
#include "engine/sampling_params.h"

namespace strobe::engine {

// The largest block (the fed token and its drafts) that may be asked for anywhere.
constexpr int32_t kMaxBlockTokens = 32;

// One request's part of a step. Spans must stay valid during Stepper::run.
struct StepSequence {
  std::span<const int32_t> tokens;  // fed in this step: a chunk of the prompt, or the one token emitted last
  int32_t first_position = 0;       // of tokens[0]; everything before is committed
  std::span<const int32_t> pages;   // page ids covering positions [0, first_position + max(tokens, block_tokens))
  bool wants_token = false;         // false for a chunk that is not the prompt's last
  // Rows a decode step may speculate, the fed token included: 1 = plain decoding. Above 1 only with one fed token.
  int32_t block_tokens = 1;
  const SamplingParams* sampling = nullptr;  // required with wants_token
  // Prompt and emitted tokens up to and including tokens.back(), for penalties; may be empty when sampling does not
  // change logits.
  std::span<const int32_t> history;
  int32_t prompt_tokens = 0;  // how many of history are the prompt's
  // A request's random stream is keyed by its seed and the position of the token drawn, so a text does not depend on
  // what else is in the batch.
  // Tokens that must not be emitted while fewer than min_new_tokens are: their logits become -inf for the rows
  // concerned.
  std::span<const int32_t> forbidden_early;
  int32_t forbidden_rows = 0;  // how many of the step's emitted tokens, from the first, are under that ban
};

struct StepPlan {
  std::vector<StepSequence> sequences;
  bool timed = false;  // stages are timed on the device, for a profile; it costs a little
};

// What a request gets from a step. With wants_token: 1 to block_tokens tokens, in order; all but the last were drafted
// and accepted, the last is the target's own. The KV of every token before the last is committed: positions
// [first_position, first_position + fed + tokens.size() - 1).
struct StepOutput {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;  // one a token when the sampling parameters ask for them, else none
  int32_t drafted = 0;                  // draft tokens proposed; 0 for plain decoding
  int32_t accepted = 0;                 // of which accepted = tokens.size() - 1
};

// When a stage ran, from the beginning of its step on.
struct StageSpan {
  double begin_ms = 0;
  double ms = 0;
};

struct StageSpans {
  StageSpan draft;
  StageSpan target;
  StageSpan accept;
  StageSpan commit;
};

struct StepTimes {
  // The host's time for each stage; in a step that is one recording the device's, and only if the step is timed.
  double draft_ms = 0;
  double target_ms = 0;  // prefill or verify pass
  double accept_ms = 0;
  double commit_ms = 0;
  double recorded_ms = 0;  // the host's time for all of a step that is one recording
  // Of timed steps, by the clock of a device that works beside the host.
  std::optional<StageSpans> device;
};

struct StepResult {
  std::vector<StepOutput> outputs;  // in the order of the plan
  StepTimes times;
};

class Stepper {
 public:
  virtual ~Stepper() = default;
  // The largest block_tokens a sequence may ask for; 1 when there is no draft.
  [[nodiscard]] virtual int32_t max_block_tokens() const = 0;
  // The most rows (all tokens and blocks together) a plan may hold.
  [[nodiscard]] virtual int32_t max_rows() const = 0;
  // Throws Failure when the device fails; requests of the plan are then lost, the stepper stays usable.
  virtual StepResult run(const StepPlan& plan) = 0;
};

}  // namespace strobe::engine
