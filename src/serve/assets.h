// What a browser gets: the page at / and its files under /page/, all built into the program (src/serve/page). Who does
// not ask for HTML at / gets a list of the endpoints in plain text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace strobe::serve {

struct Asset {
  std::string path;
  std::string_view content_type;
  std::string_view body;
  std::string etag;  // of the body
};

[[nodiscard]] std::span<const Asset> assets();
// 304 when the client says that it has this body. Headers allow the page nothing but its own files and this server.
[[nodiscard]] Response answer_with(const Asset& asset, const Request& request);

}  // namespace strobe::serve
