#include "base/json_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "base/ordered_json.h"

namespace strobe {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kShownBytes = 80;  // of a string value in a message

// What the parser's callback throws to stop a parse that is well-formed but refused.
struct Refused {
  std::string reason;
};

// The parser's own words without its tag and without the bytes it last read, which may be anything.
std::string parse_reason(std::string_view what) {
  if (what.starts_with('[')) what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
  return std::string(what.substr(0, what.find("; last read")));
}

std::string shown_string(std::string_view text) {
  const bool cut = text.size() > kShownBytes;
  return json(std::string(text.substr(0, kShownBytes))).dump(-1, ' ', false, json::error_handler_t::replace) +
         (cut ? "..." : "");
}

template <class T>
std::string accepted_text(const Limits<T>& limits) {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a string";
  } else {
    std::string kind = std::is_integral_v<T> ? "an integer" : "a number";
    const bool low = limits.min > std::numeric_limits<T>::lowest();
    const bool high = limits.max < std::numeric_limits<T>::max();
    if (low && high) return fmt::format("{} from {} to {}", kind, limits.min, limits.max);
    if (low) return fmt::format("{} of at least {}", kind, limits.min);
    if (high) return fmt::format("{} of at most {}", kind, limits.max);
    return kind;
  }
}

// An integer, or a float that is one and small enough to be exact.
std::optional<int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (number >= -kExact && number <= kExact && std::floor(number) == number) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

template <class T>
std::optional<T> convert(const json& value, const Limits<T>& limits) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) return value.get_ref<const std::string&>();
  } else if constexpr (std::is_integral_v<T>) {
    const std::optional<int64_t> number = as_integer(value);
    if (number && *number >= int64_t{limits.min} && *number <= int64_t{limits.max}) return static_cast<T>(*number);
  } else {
    if (!value.is_number()) return std::nullopt;
    const auto number = value.get<double>();
    if (std::isfinite(number) && number >= limits.min && number <= limits.max) return number;
  }
  return std::nullopt;
}

// Json: with or without the order of names.
template <class Json>
Result<Json> parse_strictly(std::string_view text, std::string_view where, size_t names_max) {
  using Event = typename Json::parse_event_t;
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto watch = [&](int depth, Event event, Json& parsed) {
    if (depth >= kMaxDepth && (event == Event::object_start || event == Event::array_start)) {
      throw Refused{fmt::format("nested deeper than {} levels", kMaxDepth)};
    }
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event != Event::key) return true;
    if (!names.back().insert(parsed.template get_ref<const std::string&>()).second) {
      throw Refused{fmt::format("the name {} occurs twice in one object", describe(json(parsed)))};
    }
    if (names.back().size() > names_max) throw Refused{fmt::format("an object of more than {} names", names_max)};
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Refused& refused) {
    return error("{}: not acceptable JSON: {}", where, refused.reason);
  } catch (const nlohmann::detail::exception& problem) {
    return error("{}: not valid JSON: {}", where, parse_reason(problem.what()));
  }
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view where) {
  return parse_strictly<nlohmann::json>(text, where, std::numeric_limits<size_t>::max());
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view where) {
  return parse_strictly<nlohmann::ordered_json>(text, where, kOrderedNamesMax);
}

std::string describe(const json& value) {
  if (value.is_string()) return shown_string(value.get_ref<const std::string&>());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  return value.dump();
}

Result<JsonFields> JsonFields::of(const json& value, std::string where) {
  if (!value.is_object()) return strobe::error("{}: it is {}; accepted: a JSON object", where, describe(value));
  return JsonFields(&value, std::move(where), "");
}

const json* JsonFields::find(std::string_view name) const {
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::path(std::string_view name) const {
  return fmt::format("{}: {}{}", where_, prefix_, name);
}

Error JsonFields::missing(std::string_view name, std::string_view accepted) const {
  return error("{} is missing; accepted: {}", path(name), accepted);
}

Error JsonFields::refuse(std::string_view name, std::string_view accepted) const {
  const json* value = find(name);
  if (value == nullptr) return missing(name, accepted);
  return error("{} is {}; accepted: {}", path(name), describe(*value), accepted);
}

template <class T>
Result<std::optional<T>> JsonFields::get_if(std::string_view name, Limits<T> limits) const {
  const json* value = find(name);
  if (value == nullptr) return std::optional<T>();
  std::optional<T> converted = convert<T>(*value, limits);
  if (!converted) return refuse(name, accepted_text(limits));
  return converted;
}

template <class T>
Result<T> JsonFields::get(std::string_view name, Limits<T> limits) const {
  STROBE_ASSIGN(std::optional<T> value, get_if<T>(name, limits));
  if (!value) return missing(name, accepted_text(limits));
  return std::move(*value);
}

template <class T>
Result<T> JsonFields::get_or(std::string_view name, T fallback, Limits<T> limits) const {
  STROBE_ASSIGN(std::optional<T> value, get_if<T>(name, limits));
  return value ? std::move(*value) : std::move(fallback);
}

template <class T>
Result<std::vector<T>> JsonFields::list(std::string_view name, Limits<T> limits) const {
  const json* value = find(name);
  if (value == nullptr || !value->is_array()) {
    return refuse(name, fmt::format("an array, each element {}", accepted_text(limits)));
  }
  std::vector<T> list;
  list.reserve(value->size());
  for (const json& element : *value) {
    std::optional<T> converted = convert<T>(element, limits);
    if (!converted) {
      return error("{}[{}] is {}; accepted: {}", path(name), list.size(), describe(element), accepted_text(limits));
    }
    list.push_back(std::move(*converted));
  }
  return list;
}

template <class T>
Result<std::optional<std::vector<T>>> JsonFields::list_if(std::string_view name, Limits<T> limits) const {
  if (!has(name)) return std::optional<std::vector<T>>();
  STROBE_ASSIGN(std::vector<T> found, list<T>(name, limits));
  return std::optional<std::vector<T>>(std::move(found));
}

Result<std::string> JsonFields::choice(std::string_view name, std::initializer_list<std::string_view> accepted,
                                       std::optional<std::string_view> fallback) const {
  const json* value = find(name);
  if (value == nullptr && fallback) return std::string(*fallback);
  if (value != nullptr && value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    for (const std::string_view candidate : accepted) {
      if (text == candidate) return text;
    }
  }
  return refuse(name, fmt::format("{}", fmt::join(accepted, ", ")));
}

Result<JsonFields> JsonFields::object(std::string_view name) const {
  STROBE_ASSIGN(std::optional<JsonFields> fields, object_if(name));
  if (!fields) return missing(name, "an object");
  return std::move(*fields);
}

Result<std::optional<JsonFields>> JsonFields::object_if(std::string_view name) const {
  const json* value = find(name);
  if (value == nullptr) return std::optional<JsonFields>();
  if (!value->is_object()) return refuse(name, "an object");
  return std::optional<JsonFields>(JsonFields(value, where_, fmt::format("{}{}.", prefix_, name)));
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define STROBE_JSON_FIELDS_OF(T)                                                              \
  template Result<std::vector<T>> JsonFields::list<T>(std::string_view, Limits<T>) const;     \
  template Result<T> JsonFields::get<T>(std::string_view, Limits<T>) const;                   \
  template Result<T> JsonFields::get_or<T>(std::string_view, T, Limits<T>) const;             \
  template Result<std::optional<T>> JsonFields::get_if<T>(std::string_view, Limits<T>) const; \
  template Result<std::optional<std::vector<T>>> JsonFields::list_if<T>(std::string_view, Limits<T>) const;
STROBE_JSON_FIELDS_OF(int)
STROBE_JSON_FIELDS_OF(int64_t)
STROBE_JSON_FIELDS_OF(double)
STROBE_JSON_FIELDS_OF(bool)
STROBE_JSON_FIELDS_OF(std::string)
#undef STROBE_JSON_FIELDS_OF
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace strobe
