// ApiError: a refusal that is about to become an HTTP answer. The one error format of every dialect:
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "temperature", "code": null}}
#pragma once

#include <string>

#include "serve/http.h"

namespace strobe::serve {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field that is wrong; empty when it is no field
  std::string code;   // a word for programs, such as "model_not_found"; may be empty
};

// The JSON object {"error": {...}}.
[[nodiscard]] std::string to_json(const ApiError& error);
[[nodiscard]] Response to_response(const ApiError& error);

}  // namespace strobe::serve
