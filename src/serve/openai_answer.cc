#include "serve/openai_answer.h"

#include "serve/logprobs_answer.h"
#include "serve/sse.h"

namespace strobe::serve {
namespace {

void write_finish(JsonWriter& json, const schedule::Finish* finish) {
  if (finish == nullptr) {
    json.null_field("finish_reason").null_field("matched_stop");
    return;
  }
  json.field("finish_reason", finish_word(finish->reason));
  json.key("matched_stop");
  write_matched(json, *finish);
}

struct Story {
  int32_t first = 0;  // the place of ids[0] in the answer
  std::span<const int32_t> ids;
  std::span<const schedule::TokenOrigin> origins;  // of ids
  std::string_view text;
  std::span<const schedule::TextPiece> pieces;  // of text
  double elapsed_ms = 0;
};

// How tokens came and when, and text cut by the tokens it came from: the pieces joined are the text.
void write_story(JsonWriter& json, const Story& story) {
  json.key("token_origins").begin_object().field("first", story.first).field("elapsed_ms", story.elapsed_ms);
  json.key("tokens").begin_array();
  for (size_t i = 0; i < story.origins.size(); ++i) {
    const schedule::TokenOrigin& origin = story.origins[i];
    json.begin_object().field("id", story.ids[i]).field("step", origin.step);
    json.field("block_position", origin.block_position).field("drafted", origin.drafted).end_object();
  }
  json.end_array().key("pieces").begin_array();
  size_t at = 0;
  for (const schedule::TextPiece& piece : story.pieces) {
    const auto bytes = static_cast<size_t>(piece.bytes);
    json.begin_object().field("token", piece.token).field("text", story.text.substr(at, bytes)).end_object();
    at += bytes;
  }
  json.end_array().end_object();
}

}  // namespace

void OpenAiAnswer::begin_json(JsonWriter& json) const {
  json.begin_object().field("id", shape_.id);
  json.field("object", shape_.chat ? shape_.stream ? "chat.completion.chunk" : "chat.completion" : "text_completion");
  json.field("created", shape_.created_unix_s).field("model", shape_.model);
}

void OpenAiAnswer::write_logprobs(JsonWriter& json, int index, std::span<const int32_t> ids,
                                  std::span<const engine::TokenLogprobs> logprobs) {
  json.key("logprobs");
  if (!shape_.logprobs || ids.empty() || logprobs.size() != ids.size()) {
    json.null();
  } else if (shape_.chat) {
    write_chat_logprobs(json, *shape_.text, {ids, logprobs});
  } else {
    write_completion_logprobs(json, *shape_.text, {ids, logprobs}, shape_.skip_special_tokens,
                              text_offset_[static_cast<size_t>(index)]);
  }
}

void OpenAiAnswer::write_piece(Exchange& exchange, const Piece& piece) {
  JsonWriter json;
  begin_json(json);
  json.key("choices").begin_array().begin_object().field("index", piece.index);
  if (shape_.chat) {
    json.key("delta").begin_object();
    if (piece.with_role) json.field("role", "assistant");
    if (piece.with_text) json.field("content", piece.text);
    json.end_object();
  } else {
    json.field("text", piece.text);
  }
  if (shape_.token_ids) json.key("token_ids").integers(piece.token_ids);
  if (shape_.token_origins && !(piece.origins.empty() && piece.text_pieces.empty())) {
    write_story(json, {.first = piece.first_token,
                       .ids = piece.token_ids,
                       .origins = piece.origins,
                       .text = piece.text,
                       .pieces = piece.text_pieces,
                       .elapsed_ms = piece.usage->total_ms});
  }
  write_logprobs(json, piece.index, piece.token_ids, piece.logprobs);
  write_finish(json, piece.finish);
  json.end_object().end_array();
  if (shape_.continuous_usage && piece.usage != nullptr) {
    Choice alone;
    alone.usage = *piece.usage;
    json.key("usage");
    write_usage(json, add_up({&alone, 1}), shape_.draft_block_tokens);
  } else if (shape_.include_usage) {
    json.null_field("usage");
  }
  exchange.write(sse_event(json.end_object().text()));
}

void OpenAiAnswer::begin(Exchange& exchange) {
  if (!shape_.stream) return;
  exchange.begin_stream(sse_head());
  for (size_t i = 0; i < shape_.prompt_of.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (shape_.chat) {
      write_piece(exchange, {.index = index, .with_role = true});
    } else if (!shape_.echo.empty()) {
      write_piece(exchange, {.index = index, .text = shape_.echo[static_cast<size_t>(shape_.prompt_of[i])]});
    }
  }
}

void OpenAiAnswer::chunk(Exchange& exchange, const Choice& choice, const schedule::Chunk& chunk) {
  if (!shape_.stream) return;
  const schedule::Finish* finish = chunk.finish ? &*chunk.finish : nullptr;
  const bool tells_tokens = shape_.token_ids || shape_.token_origins || shape_.logprobs;
  const bool has_news = !chunk.text.empty() || (tells_tokens && !chunk.token_ids.empty());
  Piece piece{.index = choice.index,
              .text = chunk.text,
              .token_ids = chunk.token_ids,
              .origins = chunk.origins,
              .text_pieces = chunk.pieces,
              .first_token = chunk.usage.completion_tokens - static_cast<int32_t>(chunk.token_ids.size()),
              .logprobs = chunk.logprobs,
              .usage = &choice.usage};
  // Chat has the finish reason in an event of its own, with an empty delta.
  if (has_news && (shape_.chat || finish == nullptr)) {
    write_piece(exchange, piece);
    piece.text = {};
    piece.token_ids = {};
    piece.origins = {};
    piece.text_pieces = {};
    piece.first_token = chunk.usage.completion_tokens;
    piece.logprobs = {};
  }
  if (finish == nullptr) return;
  piece.finish = finish;
  piece.with_text = !shape_.chat;
  write_piece(exchange, piece);
}

void OpenAiAnswer::write_whole_choice(JsonWriter& json, const Choice& choice) {
  json.begin_object().field("index", choice.index);
  if (shape_.chat) {
    json.key("message").begin_object().field("role", "assistant").field("content", choice.text).end_object();
  } else if (shape_.echo.empty()) {
    json.field("text", choice.text);
  } else {
    json.field("text", shape_.echo[static_cast<size_t>(choice.prompt_index)] + choice.text);
  }
  if (shape_.token_ids) json.key("token_ids").integers(choice.token_ids);
  if (shape_.token_origins) {
    write_story(json, {.ids = choice.token_ids,
                       .origins = choice.origins,
                       .text = choice.text,
                       .pieces = choice.pieces,
                       .elapsed_ms = choice.usage.total_ms});
  }
  write_logprobs(json, choice.index, choice.token_ids, choice.logprobs);
  write_finish(json, choice.finish ? &*choice.finish : nullptr);
  json.end_object();
}

void OpenAiAnswer::finish(Exchange& exchange, std::span<const Choice> choices) {
  JsonWriter json;
  begin_json(json);
  json.key("choices").begin_array();
  if (!shape_.stream) {
    for (const Choice& choice : choices) write_whole_choice(json, choice);
  }
  json.end_array().key("usage");
  write_usage(json, add_up(choices), shape_.draft_block_tokens);
  json.end_object();
  if (!shape_.stream) return exchange.send({.body = json.take()});
  if (shape_.include_usage) exchange.write(sse_event(json.text()));
  exchange.write(std::string(kSseDone));
  exchange.end();
}

void OpenAiAnswer::fail(Exchange& exchange, const ApiError& error) {
  if (!shape_.stream) return exchange.send(to_response(error));
  exchange.write(sse_event(to_json(error)));
  exchange.write(std::string(kSseDone));
  exchange.end();
}

}  // namespace strobe::serve
