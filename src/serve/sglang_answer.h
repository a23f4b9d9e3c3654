// SglangAnswer: texts as /generate says them: {text, output_ids, meta_info}, cumulative when streamed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/job.h"
#include "serve/json_writer.h"
#include "serve/logprobs_answer.h"
#include "serve/text_service.h"

namespace strobe::serve {

struct SglangShape {
  bool stream = false;
  bool list = false;              // several prompts or n > 1: a list; events carry an index
  std::vector<std::string> ids;   // meta_info.id of each choice
  std::vector<int64_t> interval;  // stream_interval of each choice
  int32_t draft_block_tokens = 1;
  std::optional<SglangLogprobsShape> logprobs;
  const TextService* text = nullptr;  // needed with logprobs
};

class SglangAnswer final : public Answer {
 public:
  explicit SglangAnswer(SglangShape shape) : shape_(std::move(shape)), sent_(shape_.ids.size()) {}

  [[nodiscard]] bool keeps_text() const override { return true; }
  void begin(Exchange& exchange) override;
  void chunk(Exchange& exchange, const Choice& choice, const schedule::Chunk& chunk) override;
  void finish(Exchange& exchange, std::span<const Choice> choices) override;
  void fail(Exchange& exchange, const ApiError& error) override;

 private:
  void write_choice(JsonWriter& json, const Choice& choice, bool with_index) const;
  void write_meta(JsonWriter& json, const Choice& choice) const;

  const SglangShape shape_;
  std::vector<int32_t> sent_;  // completion tokens in the last event of each choice
};

// SGLang's words: null, or {"type": "stop", "matched": ...}, {"type": "length", "length": n}, {"type": "abort", ...}.
void write_sglang_finish(JsonWriter& json, const schedule::Finish* finish, int64_t completion_tokens);

}  // namespace strobe::serve
