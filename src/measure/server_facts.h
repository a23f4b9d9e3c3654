// What a server says about itself, in Strobe's or SGLang's words.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "measure/http_client.h"

namespace strobe::measure {

struct ServerFacts {
  std::string model;                                      // the name that requests use
  nlohmann::json server_args = nlohmann::json::object();  // all of /server_info but internal_states
  std::optional<int64_t> token_capacity;
  std::optional<int64_t> max_running_requests;
  std::optional<int64_t> max_context_tokens;
  std::optional<int64_t> vocab_tokens;
  std::optional<double> accept_length;  // mean since the last /flush_cache
  std::optional<double> last_gen_throughput;
};

// GET /v1/models and /server_info. Errors name the server.
Result<ServerFacts> read_server_facts(const HttpClient& client);
// The parts of /server_info; pure.
void read_server_info(const nlohmann::json& info, ServerFacts& facts);
// /health answers at all.
[[nodiscard]] bool is_alive(const HttpClient& client);
// POST /flush_cache, asked again for a while when requests are still ending.
Result<void> flush_cache(const HttpClient& client);
// Ids of a text by the server's own tokenizer.
Result<std::vector<int32_t>> tokenize(const HttpClient& client, const std::string& model, const std::string& text);

}  // namespace strobe::measure
