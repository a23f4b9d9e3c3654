// Server-sent events: bytes in, the data of whole events out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace strobe::measure {

class SseParser {
 public:
  // Lines of one event's data are joined with '\n'; comments and other fields are skipped; lines may end in CR LF.
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);
  // Bytes of an event that has not ended.
  [[nodiscard]] bool inside_event() const { return has_data_ || !line_.empty(); }

 private:
  void end_line(const std::function<void(std::string_view)>& on_event);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace strobe::measure
