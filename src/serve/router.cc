#include "serve/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "serve/api_error.h"

namespace strobe::serve {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.ends_with('*')) return path.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == path;
}

}  // namespace

void Router::add(std::string method, std::string path, Handler handler, Handling handling) {
  for (const Route& route : routes_) {
    STROBE_CHECK(route.method != method || !matches(route.path, path), "{} {} would never be reached behind {}", method,
                 path, route.path);
  }
  routes_.push_back({std::move(method), std::move(path), std::move(handler), handling});
}

bool Router::is_short(std::string_view path) const {
  bool known = false;
  for (const Route& route : routes_) {
    if (!matches(route.path, path)) continue;
    if (route.handling != Handling::kShort) return false;
    known = true;
  }
  return known;
}

std::string_view Router::route_of(std::string_view path) const {
  for (const Route& route : routes_) {
    if (matches(route.path, path)) return route.path;
  }
  return "other";
}

void Router::handle(std::shared_ptr<Exchange> exchange) const {
  const Request& request = exchange->request();
  const std::string_view wanted = request.method == "HEAD" ? std::string_view("GET") : request.method;
  std::vector<std::string_view> allowed;
  for (const Route& route : routes_) {
    if (!matches(route.path, request.path)) continue;
    if (route.method == wanted) return route.handler(std::move(exchange));
    allowed.push_back(route.method);
    if (route.method == "GET") allowed.push_back("HEAD");
  }
  if (allowed.empty()) {
    return exchange->send(
        to_response({.status = 404,
                     .message = fmt::format("no endpoint at '{}'; GET / lists the endpoints", request.path),
                     .code = "endpoint_not_found"}));
  }
  allowed.push_back("OPTIONS");
  const std::string list = fmt::format("{}", fmt::join(allowed, ", "));
  Response response;
  if (request.method == "OPTIONS") {
    response.status = 204;
  } else {
    response = to_response({.status = 405,
                            .message = fmt::format("{} takes {}, not {}", request.path, list, request.method),
                            .code = "method_not_allowed"});
  }
  response.headers.push_back({"Allow", list});
  exchange->send(std::move(response));
}

}  // namespace strobe::serve
