// Typed reading of JSON objects: configuration files and request bodies.
//
// Every refusal names the document, the path inside it, the value seen and what is accepted:
//   "config.json: rope_scaling.factor is -4; accepted: a number from 1 to 65536"
// Include <nlohmann/json.hpp> where values are made. JSON null counts as absent. A number written as 64.0 is accepted
// where an integer is wanted; a string or a boolean never is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe {

// Parses a whole text. Refused: anything but one JSON value, invalid UTF-8, nesting deeper than 64, a name twice in one
// object; the message begins with `where` and gives the byte.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view where);

// Inclusive bounds; for strings and booleans they are ignored.
template <class T>
struct Limits {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};
template <>
struct Limits<bool> {};
template <>
struct Limits<std::string> {};

// A view of one JSON object; the json value must outlive it. T is int, int64_t, double, bool or std::string.
class JsonFields {
 public:
  // `where` names the document ("config.json", "request body"). Not an object: an Error.
  static Result<JsonFields> of(const nlohmann::json& value, std::string where);

  // Present and not null.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  // The raw value, or nullptr when absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view name) const;
  // "config.json: rope_scaling.factor", for messages of checks that compare several fields.
  [[nodiscard]] std::string path(std::string_view name) const;
  [[nodiscard]] const std::string& where() const { return where_; }

  // Absent is an Error.
  template <class T>
  Result<T> get(std::string_view name, Limits<T> limits = {}) const;
  // Absent is `fallback`; the fallback is not held to the limits.
  template <class T>
  Result<T> get_or(std::string_view name, T fallback, Limits<T> limits = {}) const;
  // Absent is nullopt.
  template <class T>
  Result<std::optional<T>> get_if(std::string_view name, Limits<T> limits = {}) const;

  // An array whose elements all are T; absent is an Error, or nullopt.
  template <class T>
  Result<std::vector<T>> list(std::string_view name, Limits<T> limits = {}) const;
  template <class T>
  Result<std::optional<std::vector<T>>> list_if(std::string_view name, Limits<T> limits = {}) const;

  // A string that must be one of `accepted`; absent is `fallback`, or an Error when there is none.
  Result<std::string> choice(std::string_view name, std::initializer_list<std::string_view> accepted,
                             std::optional<std::string_view> fallback = std::nullopt) const;

  // A nested object.
  Result<JsonFields> object(std::string_view name) const;
  Result<std::optional<JsonFields>> object_if(std::string_view name) const;

  // The Error for a value that has the right type but is not acceptable.
  [[nodiscard]] Error refuse(std::string_view name, std::string_view accepted) const;

 private:
  JsonFields(const nlohmann::json* value, std::string where, std::string prefix)
      : value_(value), where_(std::move(where)), prefix_(std::move(prefix)) {}
  [[nodiscard]] Error missing(std::string_view name, std::string_view accepted) const;

  const nlohmann::json* value_;
  std::string where_;   // the document
  std::string prefix_;  // "rope_scaling." inside it, or empty
};

// A JSON value as messages show it: scalars as written (long strings cut), "an array of 3", "an object".
[[nodiscard]] std::string describe(const nlohmann::json& value);

}  // namespace strobe
