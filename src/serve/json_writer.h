// JsonWriter: JSON text, appended piece by piece. For answers and server-sent events, where building a tree first would
// cost ten times as much.
//
// Strings may hold any bytes: what is not UTF-8 is written as U+FFFD, so the text is always valid JSON. Numbers that
// are not finite become null. Misnested calls are our bug and are not detected; tests parse what each caller writes.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strobe::serve {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t number);
  JsonWriter& number(double number);
  JsonWriter& number(float number);  // as short as a float needs
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  // a whole JSON value, trusted
  JsonWriter& integers(std::span<const int32_t> numbers);

  // key and value in one.
  JsonWriter& field(std::string_view name, std::string_view text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, const char* text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, const std::string& text) { return key(name).string(text); }
  template <std::integral T>
  JsonWriter& field(std::string_view name, T value) {
    if constexpr (std::same_as<T, bool>) {
      return key(name).boolean(value);
    } else {
      return key(name).integer(static_cast<int64_t>(value));
    }
  }
  JsonWriter& field(std::string_view name, std::floating_point auto value) { return key(name).number(value); }
  JsonWriter& null_field(std::string_view name) { return key(name).null(); }
  JsonWriter& raw_field(std::string_view name, std::string_view json) { return key(name).raw(json); }

  [[nodiscard]] const std::string& text() const { return out_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void separate();  // the comma before a value or key, where one belongs

  std::string out_;
  bool comma_ = false;  // a value stands before this place, inside the same brackets
};

// Appends `text` as a quoted JSON string, as JsonWriter::string does.
void append_json_string(std::string& out, std::string_view text);

}  // namespace strobe::serve
