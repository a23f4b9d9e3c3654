#include "serve/api_error.h"

#include "serve/json_writer.h"

namespace strobe::serve {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
    case 403:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string to_json(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", error.message).field("type", error_type(error.status));
  if (error.param.empty()) {
    json.null_field("param");
  } else {
    json.field("param", error.param);
  }
  if (error.code.empty()) {
    json.null_field("code");
  } else {
    json.field("code", error.code);
  }
  return json.end_object().end_object().take();
}

Response to_response(const ApiError& error) {
  Response response{.status = error.status, .body = to_json(error)};
  if (error.status == 503 || error.status == 429) response.headers.push_back({"Retry-After", "1"});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace strobe::serve
