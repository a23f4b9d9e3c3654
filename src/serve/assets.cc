#include "serve/assets.h"

#include <array>

namespace strobe::serve {
namespace {

constexpr std::string_view kFrontPage = R"(Strobe

  GET  /health                 200 when a token can be generated
  GET  /health_generate        generates one token now
  GET  /v1/models              the model
  POST /v1/completions         text from a prompt (OpenAI)
  POST /v1/chat/completions    text from a conversation (OpenAI)
  POST /generate               text from text or token ids (SGLang)
  POST /tokenize, /detokenize  text to tokens and back
  POST /abort_request          ends a request by its id
  POST /flush_cache            empties the prefix cache
  GET  /model_info, /server_info, /v1/loads, /metrics

Try it (put this server's address for HOST):

  curl http://HOST/v1/completions -H 'Content-Type: application/json' \
    -d '{"prompt": "The sun", "max_tokens": 32}'

  curl -N http://HOST/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "Hello"}], "stream": true, "stream_options": {"include_usage": true}}'

  curl http://HOST/generate -H 'Content-Type: application/json' \
    -d '{"text": "The sun", "sampling_params": {"temperature": 0, "max_new_tokens": 32}}'

`usage` and `meta_info` tell how many draft tokens were accepted; "speculative": "off" turns the draft off.
)";

constexpr std::array kAssets = {Asset{"/", "text/plain; charset=utf-8", kFrontPage}};

}  // namespace

std::span<const Asset> assets() {
  return kAssets;
}

}  // namespace strobe::serve
