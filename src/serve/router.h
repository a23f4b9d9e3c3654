// Router: (method, path) -> handler. Answers 404 and 405 itself, HEAD through the handler of GET, and OPTIONS with the
// methods a path has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace strobe::serve {

// How long a handler may take: a short one does no more than look things up.
enum class Handling { kLong, kShort };

class Router {
 public:
  // A path that ends in '*' takes every path with what stands before it. Adding what an earlier route would take away
  // is a bug, and ends the program.
  void add(std::string method, std::string path, Handler handler, Handling handling = Handling::kLong);
  void handle(std::shared_ptr<Exchange> exchange) const;
  // The path as it was added, for metrics labels that clients cannot make up; "other" when there is none.
  [[nodiscard]] std::string_view route_of(std::string_view path) const;
  // Whether every handler of the path is short.
  [[nodiscard]] bool is_short(std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    Handler handler;
    Handling handling = Handling::kLong;
  };
  std::vector<Route> routes_;
};

}  // namespace strobe::serve
