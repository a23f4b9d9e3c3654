#include "measure/server_facts.h"

#include <utility>

#include "base/json_fields.h"

namespace strobe::measure {
namespace {

using nlohmann::json;

Result<json> get_json(const HttpClient& client, std::string_view path) {
  const HttpReply reply = client.get(path);
  const std::string where = client.endpoint().url() + std::string(path);
  if (!reply.ok()) return error("{}: {}", where, reply.describe());
  return parse_json(reply.body, where);
}

template <class T>
std::optional<T> number_at(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_number()) return std::nullopt;
  return object[name].get<T>();
}

}  // namespace

void read_server_info(const json& info, ServerFacts& facts) {
  if (!info.is_object()) return;
  facts.server_args = info;
  facts.server_args.erase("internal_states");
  facts.max_context_tokens = number_at<int64_t>(info, "context_length");
  if (const auto input = number_at<int64_t>(info, "max_req_input_len")) facts.max_context_tokens = *input + 1;
  if (!info.contains("internal_states") || !info["internal_states"].is_array()) return;
  for (const json& state : info["internal_states"]) {
    const json memory = state.is_object() ? state.value("memory_usage", json::object()) : json::object();
    if (const auto tokens = number_at<int64_t>(memory, "token_capacity")) {
      facts.token_capacity = facts.token_capacity.value_or(0) + *tokens;
    }
  }
  if (info["internal_states"].empty()) return;
  const json& state = info["internal_states"][0];
  facts.max_running_requests = number_at<int64_t>(state, "effective_max_running_requests_per_dp");
  facts.accept_length = number_at<double>(state, "avg_spec_accept_length");
  facts.last_gen_throughput = number_at<double>(state, "last_gen_throughput");
}

Result<ServerFacts> read_server_facts(const HttpClient& client) {
  ServerFacts facts;
  STROBE_ASSIGN(const json models, get_json(client, "/v1/models"));
  const json& list = models.is_object() ? models.value("data", json::array()) : json::array();
  if (!list.is_array() || list.empty() || !list[0].is_object() || !list[0].contains("id") ||
      !list[0]["id"].is_string()) {
    return error("{}/v1/models: no data[0].id in it; is that a model server?", client.endpoint().url());
  }
  facts.model = list[0]["id"].get<std::string>();
  STROBE_ASSIGN(const json info, get_json(client, "/server_info"));
  read_server_info(info, facts);
  return facts;
}

bool is_alive(const HttpClient& client) {
  return client.get("/health").status != 0;
}

Result<void> flush_cache(const HttpClient& client) {
  int tries = 0;
  const HttpReply reply = with_retries(
      {.tries = 5, .first_pause = std::chrono::milliseconds(100)}, [&] { return client.stopped(); },
      [&] {
        HttpReply answer = client.post("/flush_cache", "");
        if (answer.status == 400) answer.status = 503;  // busy: requests are ending
        return answer;
      },
      tries);
  if (!reply.ok()) return error("{}/flush_cache: {}", client.endpoint().url(), reply.describe());
  return {};
}

Result<std::vector<int32_t>> tokenize(const HttpClient& client, const std::string& model, const std::string& text) {
  const json body = {{"model", model}, {"prompt", text}};
  const HttpReply reply = client.post("/tokenize", body.dump(-1, ' ', false, json::error_handler_t::replace));
  const std::string where = client.endpoint().url() + "/tokenize";
  if (!reply.ok()) return error("{}: {}", where, reply.describe());
  STROBE_ASSIGN(const json answer, parse_json(reply.body, where));
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(answer, where));
  STROBE_ASSIGN(const std::vector<int> ids, fields.list<int>("tokens"));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

}  // namespace strobe::measure
