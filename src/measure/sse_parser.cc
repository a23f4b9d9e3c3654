#include "measure/sse_parser.h"

namespace strobe::measure {

void SseParser::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_event) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    end_line(on_event);
  }
}

void SseParser::end_line(const std::function<void(std::string_view)>& on_event) {
  if (line_.ends_with('\r')) line_.pop_back();
  if (line_.empty()) {
    if (has_data_) on_event(data_);
    data_.clear();
    has_data_ = false;
  } else if (line_.starts_with("data:")) {
    std::string_view value = std::string_view(line_).substr(5);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace strobe::measure
