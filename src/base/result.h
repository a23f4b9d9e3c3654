// Result<T>: the value, or the user's fault in words.
//
// Errors come in three kinds. The user's fault (a bad flag, file, tensor or request field) is returned as an Error
// inside a Result and becomes a 4xx or a message on the command line. The environment's fault (disk, memory, device) is
// thrown as Failure (failure.h). Our own bug aborts with values (check.h).
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace strobe {

// A message for the user. It names the flag, file, tensor or field, the value seen, and what would be accepted.
struct Error {
  std::string message;
};

template <class... Args>
[[nodiscard]] Error error(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value. Asking a failed Result for it is our bug.
  [[nodiscard]] T& value() & {
    STROBE_CHECK(ok(), "value() of a failed Result: {}", message());
    return std::get<0>(state_);
  }
  [[nodiscard]] const T& value() const& {
    STROBE_CHECK(ok(), "value() of a failed Result: {}", message());
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    STROBE_CHECK(ok(), "value() of a failed Result: {}", message());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }
  [[nodiscard]] const std::string& message() const { return std::get<1>(state_).message; }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return *error_; }
  [[nodiscard]] const std::string& message() const { return error_->message; }

 private:
  std::optional<Error> error_;
};

}  // namespace strobe

#define STROBE_CONCAT_INNER(a, b) a##b
#define STROBE_CONCAT(a, b) STROBE_CONCAT_INNER(a, b)

// Leaves the enclosing function with the error of `expression` (a Result) when it has one.
#define STROBE_TRY(expression)                                     \
  do {                                                             \
    auto&& strobe_try_result = (expression);                       \
    if (!strobe_try_result.ok()) return strobe_try_result.error(); \
  } while (false)

// STROBE_ASSIGN(auto x, make_x()): x becomes the value, or the enclosing function returns the error.
#define STROBE_ASSIGN(target, expression)                                                                    \
  auto STROBE_CONCAT(strobe_result_, __LINE__) = (expression);                                               \
  if (!STROBE_CONCAT(strobe_result_, __LINE__).ok()) return STROBE_CONCAT(strobe_result_, __LINE__).error(); \
  target = std::move(STROBE_CONCAT(strobe_result_, __LINE__)).value()
