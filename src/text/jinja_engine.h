// One parsed Jinja template. The engine (llama.cpp's) and its types stay behind this page.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strobe {

class JinjaTemplate {
 public:
  // Parses as transformers sets Jinja2 up (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception,
  // strftime_now). An Error begins with `name` and gives line and column; a template nested deeper than jinja_guard.h
  // allows is one.
  static Result<std::unique_ptr<JinjaTemplate>> parse(std::string source, std::string_view name);
  ~JinjaTemplate();

  // `variables` is the text of a JSON object: its keys become the template's variables. `now_s` is what strftime_now
  // takes as the time (seconds since 1970), the clock when not given. The template's raise_exception(text) is an Error
  // with that text alone; a fault of the template is one that says where. Many threads may render at once.
  Result<std::string> render(const std::string& variables, std::optional<int64_t> now_s) const;

  [[nodiscard]] const std::string& source() const;

 private:
  struct Impl;
  explicit JinjaTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strobe
