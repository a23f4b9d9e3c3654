// Generator: what the doors of the program (HTTP, command line) see of the engine: requests in, chunks of text out.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/logprobs.h"
#include "engine/sampling_params.h"
#include "engine/step.h"

namespace strobe::schedule {

// When a text ends. Judged on the tokens the client sees, never on draft tokens.
struct StopRules {
  int32_t max_new_tokens = 128;
  int32_t min_new_tokens = 0;
  std::vector<std::string> stop_strings;
  std::vector<int32_t> stop_token_ids;  // besides the model's own end tokens
  bool ignore_eos = false;
  bool include_stop = false;  // leave the stop string or token in the text
};

enum class Drafting {
  kOff,         // plain decoding
  kWhenItPays,  // a block a step as long as enough of it is accepted (draft_account.h)
  kAlways,      // a block a step, whatever comes of it
};

struct GenerateRequest {
  std::string id;                   // unique among live requests; empty = one is made
  std::vector<int32_t> prompt_ids;  // at least one
  engine::SamplingParams sampling;
  StopRules stop;
  bool skip_special_tokens = true;
  Drafting drafting = Drafting::kWhenItPays;
  int32_t timeout_ms = 0;  // from submit to the last chunk; behind it the request is aborted. 0: no limit
};

enum class FinishReason { kStop, kLength, kAbort };

struct Finish {
  FinishReason reason = FinishReason::kStop;
  std::optional<int32_t> matched_token;       // kStop by a token
  std::optional<std::string> matched_string;  // kStop by a string
  std::string message;                        // kAbort: why, in words
};

using engine::kMaxBlockTokens;  // the length of the histograms below

// Accept length: tokens a verify step, the target's own one included: (accepted + verify steps) / verify steps; 1 when
// there was none.
[[nodiscard]] constexpr double accept_length(int64_t accepted_tokens, int64_t verify_steps) {
  return verify_steps == 0 ? 1.0
                           : static_cast<double>(accepted_tokens + verify_steps) / static_cast<double>(verify_steps);
}

// Counts of one request so far. Tokens are the emitted ones.
struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = 0;    // of the prompt, found in the prefix cache
  int32_t preemptions = 0;      // how often it lost its pages to older requests and read its text again
  int32_t verify_steps = 0;     // steps with a draft
  int32_t decode_steps = 0;     // steps after prefill, with or without a draft
  int32_t held_back_steps = 0;  // decode steps without a draft because drafting did not pay; a token each
  int32_t drafted_tokens = 0;
  // Drafts that the target agreed with: how well the draft knows the target. In an answer's last step some of them may
  // lie behind its end; tokens a client got per step are completion_tokens / decode_steps.
  int32_t accepted_tokens = 0;
  // accept_histogram[a]: verify steps that accepted exactly a draft tokens
  std::array<int32_t, kMaxBlockTokens> accept_histogram{};
  double queue_ms = 0;
  double first_token_ms = 0;  // from submit to the first token
  double total_ms = 0;        // from submit to this chunk

  [[nodiscard]] double accept_length() const { return schedule::accept_length(accepted_tokens, verify_steps); }
};

// How a token came to be, for people who want to watch.
struct TokenOrigin {
  int32_t step = 0;            // decode step of its request; 0 = prefill
  int32_t block_position = 0;  // 0: the target's own token (bonus, or plain); i: accepted draft i of its block
  int32_t drafted = 0;         // drafts that its step had to check; 0: plain decoding
};

// Which token a part of the text came from.
struct TextPiece {
  int32_t token = 0;  // its place in the whole answer, from 0
  int32_t bytes = 0;  // above 0
};

// What a request emits at one moment: the tokens of one step, and the text that has become certain (a possible
// beginning of a stop string, or of a character, is held back until it is decided).
struct Chunk {
  std::vector<int32_t> token_ids;
  std::vector<TokenOrigin> origins;             // one a token
  std::vector<engine::TokenLogprobs> logprobs;  // one a token when the request asks for them, else none
  std::string text;
  // `text` from left to right, cut where another token's text begins. A token has none that shows nothing (an end
  // token, the first half of a character, which counts to the token that completes it), and several, in chunks to come
  // too, when a part of it was held back.
  std::vector<TextPiece> pieces;
  std::optional<Finish> finish;  // set in the last chunk, exactly once
  Usage usage;
};

// Called on one thread of the generator's, in order, and never after the chunk that has `finish`; when that one comes,
// the request's pages are free and stats() knows of its end. Must return quickly and not throw.
using ChunkSink = std::function<void(Chunk)>;

struct GeneratorStats {
  int32_t running_requests = 0;
  int32_t queued_requests = 0;
  int64_t total_slots = 0;   // tokens that fit
  int64_t used_slots = 0;    // by requests
  int64_t cached_slots = 0;  // by the prefix cache alone: given to requests when they are short
  int32_t max_running_requests = 0;
  int32_t max_context_tokens = 0;  // prompt and answer of one request
  int64_t prompt_tokens_total = 0;
  int64_t generated_tokens_total = 0;
  int64_t requests_total = 0;
  int64_t aborted_total = 0;
  int64_t cached_tokens_total = 0;  // of the prompts' tokens
  int64_t preemptions_total = 0;
  int64_t verify_steps_total = 0;
  int64_t held_back_steps_total = 0;
  int64_t drafted_tokens_total = 0;
  int64_t accepted_tokens_total = 0;
  std::array<int64_t, kMaxBlockTokens> accept_histogram{};
  int32_t draft_block_tokens = 1;  // 1: no draft
  double recent_tokens_per_second = 0;

  [[nodiscard]] double accept_length() const {
    return schedule::accept_length(accepted_tokens_total, verify_steps_total);
  }
  // Shares: of the drafted tokens that were accepted, of the slots and of the running places in use. 0 of nothing is 0.
  [[nodiscard]] double accept_rate() const { return share(accepted_tokens_total, drafted_tokens_total); }
  [[nodiscard]] double slot_usage() const { return share(used_slots, total_slots); }
  [[nodiscard]] double utilization() const { return share(running_requests, max_running_requests); }

 private:
  [[nodiscard]] static double share(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
};

class Generator {
 public:
  virtual ~Generator() = default;
  // Takes the request; an Error when it can never run (empty or too long prompt, token out of range, a full queue).
  // `sink` gets at least one chunk. Returns the request's id.
  virtual Result<std::string> submit(GenerateRequest request, ChunkSink sink) = 0;
  // Ends a request soon with FinishReason::kAbort; unknown ids are ignored.
  virtual void abort(const std::string& id) = 0;
  // Forgets every cached prefix; an Error when requests wait or run, or when the server shuts down.
  virtual Result<void> flush_cache() = 0;
  [[nodiscard]] virtual GeneratorStats stats() const = 0;
};

}  // namespace strobe::schedule
