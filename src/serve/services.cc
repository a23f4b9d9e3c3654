#include "serve/services.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fields.h"

namespace strobe::serve {

using nlohmann::json;

Refusal read_body(const Request& request, json& body) {
  constexpr std::string_view kWhere = "request body";
  if (request.body.empty()) return ApiError{.message = fmt::format("{}: it is empty; accepted: a JSON object", kWhere)};
  auto parsed = parse_json(request.body, kWhere);
  if (!parsed) return ApiError{.message = parsed.message(), .code = "bad_json"};
  if (!parsed->is_object()) {
    return ApiError{.message = fmt::format("{}: it is {}; accepted: a JSON object", kWhere, describe(*parsed))};
  }
  body = *std::move(parsed);
  return std::nullopt;
}

Refusal check_model(const RequestFields& fields, const ServerInfo& info) {
  if (!fields.model || *fields.model == info.model_name) return std::nullopt;
  ApiError refusal = refuse_field("model", json(*fields.model), describe(json(info.model_name)));
  refusal.status = 404;
  refusal.code = "model_not_found";
  return refusal;
}

Refusal check_ready(const Services& services) {
  if (services.draining) return ApiError{.status = 503, .message = "the server is stopping", .code = "stopping"};
  if (!services.ready) return ApiError{.status = 503, .message = "the model is not ready yet", .code = "not_ready"};
  return std::nullopt;
}

Refusal read_handling(const RequestFields& fields, schedule::GenerateRequest& out) {
  out.timeout_ms = static_cast<int32_t>(fields.timeout_ms.value_or(0));
  if (!fields.speculative) return std::nullopt;
  constexpr std::pair<const char*, schedule::Drafting> kWords[] = {{"auto", schedule::Drafting::kWhenItPays},
                                                                   {"always", schedule::Drafting::kAlways},
                                                                   {"off", schedule::Drafting::kOff}};
  for (const auto& [word, drafting] : kWords) {
    if (*fields.speculative != word) continue;
    out.drafting = drafting;
    return std::nullopt;
  }
  return refuse_field("speculative", json(*fields.speculative), R"("auto", "always" or "off")");
}

Refusal read_rids(const RequestFields& fields, bool several, std::vector<std::string>& ids) {
  constexpr size_t kBytesMax = 256;
  if (fields.rid == nullptr) return std::nullopt;
  const std::string accepted =
      fmt::format("a string of 1 to {} bytes{}", kBytesMax, several ? ", or an array with one for each prompt" : "");
  const auto acceptable = [](const json& id) {
    if (!id.is_string()) return false;
    const size_t bytes = id.get_ref<const std::string&>().size();
    return bytes >= 1 && bytes <= kBytesMax;
  };
  if (several && fields.rid->is_array() && !fields.rid->empty()) {
    for (const json& id : *fields.rid) {
      if (!acceptable(id)) return refuse_field("rid", id, accepted);
      ids.push_back(id.get<std::string>());
    }
    return std::nullopt;
  }
  if (!acceptable(*fields.rid)) return refuse_field("rid", *fields.rid, accepted);
  ids.push_back(fields.rid->get<std::string>());
  return std::nullopt;
}

}  // namespace strobe::serve
