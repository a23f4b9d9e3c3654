// Bounds for templates. llama.cpp's engine has none of its own: a template may loop for ever, call itself until the
// stack ends, or grow a string without end. Its syntax tree is open to us, so checks are put into it after parsing.
//
// Bounded: the steps (loop items, macro calls), the depth of macro calls, the items of a range(), the memory of a
// string or list that is set, joined (+ and ~), repeated or printed, and of all that are made or printed, and, before
// parsing, how deep the template itself is nested. Not bounded: what single built-in filters make of one value, how
// deep lists are nested that nobody prints, and values that contain themselves.
//
// Memory is counted as the engine uses it: it keeps a joined string as the list of its pieces, so that a string without
// a single byte can fill a machine.
#pragma once

#include <jinja/lexer.h>
#include <jinja/runtime.h>

#include <string>

namespace strobe::jinja_guard {

inline constexpr int64_t kMaxSteps = 100'000;  // about three seconds
inline constexpr int64_t kMaxCallDepth = 64;
inline constexpr int64_t kMaxRangeItems = 100'000;
inline constexpr int64_t kMaxValueBytes = int64_t{16} << 20;
inline constexpr int64_t kMaxPrintedBytes = int64_t{64} << 20;  // in one rendering
inline constexpr int64_t kMaxMadeBytes = int64_t{1} << 30;      // by + ~ * in one rendering, still held or not
inline constexpr int kMaxTokensPerBlock = 1000;
inline constexpr int kMaxBrackets = 64;    // (, [ and { inside one another
inline constexpr int kMaxStatements = 64;  // if, for, ... inside one another
inline constexpr int kMaxElifs = 200;      // of one template

// Thrown through the engine while it runs, for what the template's author or these bounds say. Not a std::exception:
// the engine would wrap it in a report of its own.
struct Stop {
  std::string message;
};

// Whether the parser, which is recursive, may be let loose on these tokens; else what is too deep.
[[nodiscard]] std::string nesting_complaint(const jinja::lexer_result& tokens);

// Puts the checks into a parsed template.
void install(jinja::program& program);

// Gives a context what the checks need, and the functions range() and raise_exception() that end in a Stop. Call it
// after the template's own variables are set.
void prepare(jinja::context& context);

}  // namespace strobe::jinja_guard
