#include "text/jinja_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace strobe::jinja_guard {
namespace {

using jinja::statement_ptr;
using jinja::value;

// Counters live in the context of one rendering, under names that no template can spell.
constexpr const char* kSteps = " steps";
constexpr const char* kDepth = " depth";
constexpr const char* kMadeBytes = " made";
constexpr const char* kPrintedBytes = " printed";

constexpr int64_t kPartBytes = sizeof(jinja::string_part);  // of a string's piece, besides its text
constexpr int64_t kItemBytes = sizeof(value);               // of a list's item, besides what it points to
constexpr int kMaxPrintedDepth = 200;                       // lists inside lists, when they are printed

int64_t& counter(jinja::context& context, const char* name) {
  const value held = context.get_val(name);
  if (!jinja::is_val<jinja::value_int>(held)) throw Stop{"the template runs outside its bounds"};
  return held->val_int;  // shared by the contexts of inner scopes
}

void take_steps(jinja::context& context, size_t count) {
  int64_t& left = counter(context, kSteps);
  left -= static_cast<int64_t>(count);
  if (left < 0) throw Stop{fmt::format("the template takes more than {} steps", kMaxSteps)};
}

// Of a value by itself: of a list, without what its items point to.
int64_t own_bytes(const value& v) {
  const size_t pieces = v->val_str.parts.size(), items = v->val_arr.size() + 2 * v->val_obj.size();
  return kPartBytes * static_cast<int64_t>(1 + pieces) + kItemBytes * static_cast<int64_t>(items) +
         static_cast<int64_t>(v->val_str.length());
}

// What a value takes as text, items and all: one that stands in many places counts in each of them. Stops counting
// above kMaxValueBytes.
int64_t printed_bytes(const value& v, int depth = 0) {
  if (depth > kMaxPrintedDepth)
    throw Stop{fmt::format("the template prints lists more than {} deep", kMaxPrintedDepth)};
  int64_t bytes = own_bytes(v);
  const auto add = [&](const value& item) {
    if (item && bytes <= kMaxValueBytes) bytes += printed_bytes(item, depth + 1);
  };
  for (const value& item : v->val_arr) add(item);
  for (const auto& [key, item] : v->val_obj) {
    add(key);
    add(item);
  }
  return bytes;
}

void check_bytes(int64_t bytes) {
  if (bytes > kMaxValueBytes) {
    throw Stop{fmt::format("the template makes a value of more than {} bytes", kMaxValueBytes)};
  }
}

// Takes the bytes of a value that is about to be made.
void take_made(jinja::context& context, int64_t bytes) {
  check_bytes(bytes);
  int64_t& left = counter(context, kMadeBytes);
  left -= bytes;
  if (left < 0) throw Stop{fmt::format("the template makes values of more than {} bytes in all", kMaxMadeBytes)};
}

void take_printed(jinja::context& context, int64_t bytes) {
  check_bytes(bytes);
  int64_t& left = counter(context, kPrintedBytes);
  left -= bytes;
  if (left < 0) throw Stop{fmt::format("the template prints more than {} bytes", kMaxPrintedBytes)};
}

struct Wrapper : jinja::expression {
  explicit Wrapper(statement_ptr wrapped) : inner(std::move(wrapped)) { pos = inner->pos; }
  std::string type() const override { return inner->type(); }
  statement_ptr inner;
};

// What a for loop runs over.
struct CountedIterable : Wrapper {
  using Wrapper::Wrapper;
  value execute_impl(jinja::context& context) const override {
    value v = inner->execute(context);
    take_steps(context, 1 + v->val_arr.size() + v->val_obj.size());
    return v;
  }
};

// What a set statement keeps.
struct SizedValue : Wrapper {
  using Wrapper::Wrapper;
  value execute_impl(jinja::context& context) const override {
    value v = inner->execute(context);
    check_bytes(own_bytes(v));
    return v;
  }
};

// Text or an expression that stands in a body: what it gives is copied into the text of that body.
struct Printed : Wrapper {
  using Wrapper::Wrapper;
  value execute_impl(jinja::context& context) const override {
    value v = inner->execute(context);
    take_printed(context, printed_bytes(v));
    return v;
  }
};

struct Held : jinja::expression {
  explicit Held(value v) : held(std::move(v)) { pos = 0; }
  value execute_impl(jinja::context&) const override { return held; }
  value held;
};

// Operators that make strings and lists: + and ~ join, * repeats. What they would make is checked before it is there.
struct SizedBinary : jinja::expression {
  SizedBinary(jinja::token operation, statement_ptr a, statement_ptr b)
      : op(std::move(operation)), left(std::move(a)), right(std::move(b)) {}
  value execute_impl(jinja::context& context) const override {
    value a = left->execute(context);
    value b = right->execute(context);
    if (op.value == "*") {
      check_times(context, a, b);
      check_times(context, b, a);
    } else {
      check_join(context, a, b);
    }
    return jinja::binary_expression(op, std::make_unique<Held>(std::move(a)), std::make_unique<Held>(std::move(b)))
        .execute_impl(context);
  }

  static void check_times(jinja::context& context, const value& text, const value& times) {
    if (!jinja::is_val<jinja::value_string>(text) || !jinja::is_val<jinja::value_int>(times)) return;
    const int64_t bytes = own_bytes(text);
    if (times->val_int > kMaxValueBytes / bytes) {
      throw Stop{fmt::format("the template repeats {} bytes {} times", text->val_str.length(), times->val_int)};
    }
    take_made(context, bytes * std::max<int64_t>(times->val_int, 0));
  }

  static void check_join(jinja::context& context, const value& a, const value& b) {
    if (jinja::is_val<jinja::value_string>(a) || jinja::is_val<jinja::value_string>(b)) {
      take_made(context, printed_bytes(a) + printed_bytes(b));
    } else if (jinja::is_val<jinja::value_array>(a) && jinja::is_val<jinja::value_array>(b)) {
      take_made(context, own_bytes(a) + own_bytes(b));
    }
  }

  jinja::token op;
  statement_ptr left, right;
};

// The body of a macro or of a call block.
struct CountedBody : jinja::statement {
  explicit CountedBody(jinja::statements wrapped) : body(std::move(wrapped)) { pos = 0; }
  std::string type() const override { return "Body"; }
  value execute_impl(jinja::context& context) const override {
    take_steps(context, 1);
    int64_t& depth = counter(context, kDepth);
    struct Leave {
      int64_t& depth;
      ~Leave() { --depth; }
    };
    ++depth;
    const Leave leave{depth};
    if (depth > kMaxCallDepth) throw Stop{fmt::format("the template's macros call one another {} deep", depth)};
    auto results = jinja::mk_val<jinja::value_array>();
    for (const auto& node : body) results->push_back(node->execute(context));
    return results;
  }
  jinja::statements body;
};

void guard(statement_ptr& node);
bool guard_statement(statement_ptr& node);
void guard_expression(statement_ptr& node);

void guard_all(jinja::statements& nodes) {
  for (auto& node : nodes) guard(node);
}

template <class W>
void wrap(statement_ptr& node) {
  if (node) node = std::make_unique<W>(std::move(node));
}

// The statements of a body.
void guard_block(jinja::statements& nodes) {
  for (auto& node : nodes) {
    if (!node || guard_statement(node)) continue;
    guard_expression(node);
    wrap<Printed>(node);
  }
}

template <class T>
T* as(statement_ptr& node) {
  return dynamic_cast<T*>(node.get());
}

void guard_body(jinja::statements& body) {
  guard_block(body);
  auto counted = std::make_unique<CountedBody>(std::move(body));
  body.clear();
  body.push_back(std::move(counted));
}

bool guard_statement(statement_ptr& node) {
  if (auto* s = as<jinja::if_statement>(node)) {
    guard(s->test);
    guard_block(s->body);
    guard_block(s->alternate);
  } else if (auto* f = as<jinja::for_statement>(node)) {
    guard(f->iterable);
    guard_block(f->body);
    guard_block(f->default_block);
    // "for x in list if test" must stay a select expression on top: the loop looks for it.
    auto* select = as<jinja::select_expression>(f->iterable);
    wrap<CountedIterable>(select != nullptr ? select->lhs : f->iterable);
  } else if (auto* set = as<jinja::set_statement>(node)) {
    guard(set->val);
    guard_block(set->body);
    wrap<SizedValue>(set->val);
  } else if (auto* macro = as<jinja::macro_statement>(node)) {
    guard_all(macro->args);
    guard_body(macro->body);
  } else if (auto* call = as<jinja::call_statement>(node)) {
    guard(call->call);
    guard_all(call->caller_args);
    guard_body(call->body);
  } else if (auto* filter = as<jinja::filter_statement>(node)) {
    guard(filter->filter);
    guard_block(filter->body);
  } else {
    return false;
  }
  return true;
}

void guard_expression(statement_ptr& node) {
  if (auto* member = as<jinja::member_expression>(node)) {
    guard(member->object);
    guard(member->property);
  } else if (auto* call = as<jinja::call_expression>(node)) {
    guard(call->callee);
    guard_all(call->args);
  } else if (auto* array = as<jinja::array_literal>(node)) {
    guard_all(array->val);
  } else if (auto* tuple = as<jinja::tuple_literal>(node)) {
    guard_all(tuple->val);
  } else if (auto* object = as<jinja::object_literal>(node)) {
    for (auto& [key, val] : object->val) {
      guard(key);
      guard(val);
    }
  } else if (auto* binary = as<jinja::binary_expression>(node)) {
    guard(binary->left);
    guard(binary->right);
    if (binary->op.value != "*" && binary->op.value != "+" && binary->op.value != "~") return;
    auto sized = std::make_unique<SizedBinary>(binary->op, std::move(binary->left), std::move(binary->right));
    sized->pos = node->pos;
    node = std::move(sized);
  } else if (auto* filter = as<jinja::filter_expression>(node)) {
    guard(filter->operand);
    guard(filter->filter);
  } else if (auto* select = as<jinja::select_expression>(node)) {
    guard(select->lhs);
    guard(select->test);
  } else if (auto* test = as<jinja::test_expression>(node)) {
    guard(test->operand);
    guard(test->test);
  } else if (auto* unary = as<jinja::unary_expression>(node)) {
    guard(unary->argument);
  } else if (auto* slice = as<jinja::slice_expression>(node)) {
    guard(slice->start_expr);
    guard(slice->stop_expr);
    guard(slice->step_expr);
  } else if (auto* keyword = as<jinja::keyword_argument_expression>(node)) {
    guard(keyword->val);
  } else if (auto* spread = as<jinja::spread_expression>(node)) {
    guard(spread->argument);
  } else if (auto* ternary = as<jinja::ternary_expression>(node)) {
    guard(ternary->condition);
    guard(ternary->true_expr);
    guard(ternary->false_expr);
  }
}

void guard(statement_ptr& node) {
  if (node && !guard_statement(node)) guard_expression(node);
}

value bounded_range(const jinja::func_args& args) {
  int64_t numbers[3] = {0, 0, 1};
  const size_t count = std::min<size_t>(args.count(), 3);
  for (size_t i = 0; i < count; ++i) {
    const value v = args.get_pos(i);
    numbers[count == 1 ? 1 : i] = jinja::is_val<jinja::value_int>(v) ? v->val_int : 0;  // the engine refuses others
  }
  const auto distance = static_cast<double>(numbers[1]) - static_cast<double>(numbers[0]);
  if (numbers[2] != 0 && distance / static_cast<double>(numbers[2]) > static_cast<double>(kMaxRangeItems)) {
    throw Stop{fmt::format("the template asks for a range of more than {} numbers", kMaxRangeItems)};
  }
  return jinja::global_builtins().at("range")(args);
}

value raise(const jinja::func_args& args) {
  args.ensure_vals<jinja::value_string>();
  throw Stop{args.get_pos(0)->as_string().str()};
}

}  // namespace

std::string nesting_complaint(const jinja::lexer_result& lexed) {
  using jinja::token;
  int brackets = 0, statements = 0, in_block = 0, elifs = 0;
  bool is_set = false;
  for (size_t i = 0; i < lexed.tokens.size(); ++i) {
    const token& t = lexed.tokens[i];
    ++in_block;
    switch (t.t) {
      case token::open_statement:
      case token::open_expression:
      case token::text:
      case token::comment:
        in_block = brackets = 0;
        is_set = false;
        break;
      case token::open_paren:
      case token::open_square_bracket:
      case token::open_curly_bracket:
        ++brackets;
        break;
      case token::close_paren:
      case token::close_square_bracket:
      case token::close_curly_bracket:
        --brackets;
        break;
      case token::equals:
        if (is_set && brackets == 0) {  // a set on one line opens no block
          --statements;
          is_set = false;
        }
        break;
      case token::identifier:
        if (i == 0 || lexed.tokens[i - 1].t != token::open_statement) break;
        is_set = t.value == "set";
        if (is_set || t.value == "if" || t.value == "for" || t.value == "macro" || t.value == "call" ||
            t.value == "filter") {
          ++statements;
        }
        if (t.value.starts_with("end")) --statements;
        if (t.value == "elif") ++elifs;
        break;
      default:
        break;
    }
    if (brackets > kMaxBrackets) return fmt::format("brackets are more than {} deep", kMaxBrackets);
    if (statements > kMaxStatements) return fmt::format("statements are more than {} deep", kMaxStatements);
    if (in_block > kMaxTokensPerBlock) return fmt::format("a block has more than {} tokens", kMaxTokensPerBlock);
    if (elifs > kMaxElifs) return fmt::format("there are more than {} elifs", kMaxElifs);
  }
  return {};
}

void install(jinja::program& program) {
  guard_block(program.body);
}

void prepare(jinja::context& context) {
  context.set_val(kSteps, jinja::mk_val<jinja::value_int>(kMaxSteps));
  context.set_val(kDepth, jinja::mk_val<jinja::value_int>(0));
  context.set_val(kMadeBytes, jinja::mk_val<jinja::value_int>(kMaxMadeBytes));
  context.set_val(kPrintedBytes, jinja::mk_val<jinja::value_int>(kMaxPrintedBytes));
  context.set_val("range", jinja::mk_val<jinja::value_func>("range", bounded_range));
  context.set_val("raise_exception", jinja::mk_val<jinja::value_func>("raise_exception", raise));
}

}  // namespace strobe::jinja_guard
