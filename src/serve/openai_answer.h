// OpenAiAnswer: texts as /v1/completions and /v1/chat/completions say them, whole or as a stream of events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/job.h"
#include "serve/json_writer.h"
#include "serve/text_service.h"

namespace strobe::serve {

struct OpenAiShape {
  bool chat = false;
  bool stream = false;
  bool include_usage = false;     // a last event with the usage of all choices
  bool continuous_usage = false;  // every event with the usage of its choice so far
  bool token_ids = false;
  bool token_origins = false;
  bool logprobs = false;
  bool skip_special_tokens = true;
  const TextService* text = nullptr;  // needed with logprobs
  std::string id;
  int64_t created_unix_s = 0;
  std::string model;
  std::vector<std::string> echo;  // by prompt; empty when the prompt is not repeated
  std::vector<int> prompt_of;     // of each choice
  int32_t draft_block_tokens = 1;
};

class OpenAiAnswer final : public Answer {
 public:
  explicit OpenAiAnswer(OpenAiShape shape) : shape_(std::move(shape)), text_offset_(shape_.prompt_of.size()) {}

  [[nodiscard]] bool keeps_text() const override { return !shape_.stream; }
  void begin(Exchange& exchange) override;
  void chunk(Exchange& exchange, const Choice& choice, const schedule::Chunk& chunk) override;
  void finish(Exchange& exchange, std::span<const Choice> choices) override;
  void fail(Exchange& exchange, const ApiError& error) override;

 private:
  // One choice of an event.
  struct Piece {
    int index = 0;
    std::string_view text;
    bool with_role = false;
    bool with_text = true;
    std::span<const int32_t> token_ids;
    std::span<const schedule::TokenOrigin> origins;  // of token_ids
    std::span<const schedule::TextPiece> text_pieces;
    int32_t first_token = 0;  // the place of token_ids[0] in the answer
    std::span<const engine::TokenLogprobs> logprobs;
    const schedule::Finish* finish = nullptr;
    const schedule::Usage* usage = nullptr;  // of the choice so far, when known
  };
  void begin_json(JsonWriter& json) const;
  void write_piece(Exchange& exchange, const Piece& piece);
  void write_whole_choice(JsonWriter& json, const Choice& choice);
  void write_logprobs(JsonWriter& json, int index, std::span<const int32_t> ids,
                      std::span<const engine::TokenLogprobs> logprobs);

  const OpenAiShape shape_;
  std::vector<int64_t> text_offset_;  // of each choice: characters whose tokens' log probabilities are written
};

}  // namespace strobe::serve
