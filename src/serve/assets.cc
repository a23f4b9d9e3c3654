#include "serve/assets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "serve/page_files.h"

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

A browser shows a page here. `usage` and `meta_info` tell how many draft tokens were accepted; "speculative": "off" turns the draft off.
)";

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  STROBE_CHECK(false, "the page's file {} has no content type", name);
  return {};
}

// FNV-1a, 64 bits: tells a changed file, no more.
std::string etag_of(std::string_view body) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("\"{:016x}\"", hash);
}

std::vector<Asset> make_assets() {
  std::vector<Asset> made;
  for (const PageFile& file : page_files()) {
    const std::string path = file.name == "index.html" ? "/" : fmt::format("/page/{}", file.name);
    made.push_back({.path = path, .content_type = type_of(file.name), .body = file.body, .etag = etag_of(file.body)});
  }
  return made;
}

// Whether a list of entity tags (If-None-Match) has this one; weak ones compare equal.
bool names_etag(std::string_view list, std::string_view etag) {
  return list == "*" || list.find(etag) != std::string_view::npos;
}

}  // namespace

std::span<const Asset> assets() {
  static const std::vector<Asset> made = make_assets();
  return made;
}

Response answer_with(const Asset& asset, const Request& request) {
  const bool front = asset.path == "/";
  if (front && request.header("Accept").find("text/html") == std::string_view::npos) {
    return {
        .content_type = "text/plain; charset=utf-8", .headers = {{"Vary", "Accept"}}, .body = std::string(kFrontPage)};
  }
  Response response{.content_type = std::string(asset.content_type),
                    .headers = {{"ETag", asset.etag},
                                {"Cache-Control", "no-cache"},  // ask again each time; the answer is mostly 304
                                {"Content-Security-Policy", std::string(kPolicy)},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cross-Origin-Opener-Policy", "same-origin"},
                                {"Cross-Origin-Resource-Policy", "same-origin"}}};
  if (front) response.headers.push_back({"Vary", "Accept"});
  if (names_etag(request.header("If-None-Match"), asset.etag)) {
    response.status = 304;
  } else {
    response.body = asset.body;
  }
  return response;
}

}  // namespace strobe::serve
