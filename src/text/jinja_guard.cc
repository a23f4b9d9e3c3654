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

void check_size(const value& v) {
  const size_t size = jinja::is_val<jinja::value_string>(v)  ? v->val_str.length()
                      : jinja::is_val<jinja::value_array>(v) ? v->val_arr.size()
                                                             : 0;
  if (size > kMaxValueSize) throw Stop{fmt::format("the template makes a value of size {}", size)};
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
    check_size(v);
    return v;
  }
};

struct Held : jinja::expression {
  explicit Held(value v) : held(std::move(v)) { pos = 0; }
  value execute_impl(jinja::context&) const override { return held; }
  value held;
};

// string * number, which the engine builds piece by piece however many they are.
struct SizedTimes : jinja::expression {
  SizedTimes(jinja::token operation, statement_ptr a, statement_ptr b)
      : op(std::move(operation)), left(std::move(a)), right(std::move(b)) {}
  value execute_impl(jinja::context& context) const override {
    value a = left->execute(context);
    value b = right->execute(context);
    const auto check = [](const value& text, const value& times) {
      if (!jinja::is_val<jinja::value_string>(text) || !jinja::is_val<jinja::value_int>(times)) return;
      const auto length = std::max<size_t>(text->val_str.length(), 1);
      if (times->val_int > static_cast<int64_t>(kMaxValueSize / 64 / length)) {
        throw Stop{fmt::format("the template repeats {} bytes {} times", length, times->val_int)};
      }
    };
    check(a, b);
    check(b, a);
    return jinja::binary_expression(op, std::make_unique<Held>(std::move(a)), std::make_unique<Held>(std::move(b)))
        .execute_impl(context);
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
    check_size(results);
    return results;
  }
  jinja::statements body;
};

void guard(statement_ptr& node);

void guard_all(jinja::statements& nodes) {
  for (auto& node : nodes) guard(node);
}

template <class T>
T* as(statement_ptr& node) {
  return dynamic_cast<T*>(node.get());
}

template <class W>
void wrap(statement_ptr& node) {
  if (node) node = std::make_unique<W>(std::move(node));
}

void guard_body(jinja::statements& body) {
  guard_all(body);
  auto counted = std::make_unique<CountedBody>(std::move(body));
  body.clear();
  body.push_back(std::move(counted));
}

bool guard_statement(statement_ptr& node) {
  if (auto* s = as<jinja::if_statement>(node)) {
    guard(s->test);
    guard_all(s->body);
    guard_all(s->alternate);
  } else if (auto* f = as<jinja::for_statement>(node)) {
    guard(f->iterable);
    guard_all(f->body);
    guard_all(f->default_block);
    // "for x in list if test" must stay a select expression on top: the loop looks for it.
    auto* select = as<jinja::select_expression>(f->iterable);
    wrap<CountedIterable>(select != nullptr ? select->lhs : f->iterable);
  } else if (auto* set = as<jinja::set_statement>(node)) {
    guard(set->val);
    guard_all(set->body);
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
    guard_all(filter->body);
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
    if (binary->op.value != "*") return;
    auto times = std::make_unique<SizedTimes>(binary->op, std::move(binary->left), std::move(binary->right));
    times->pos = node->pos;
    node = std::move(times);
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
  guard_all(program.body);
}

void prepare(jinja::context& context) {
  context.set_val(kSteps, jinja::mk_val<jinja::value_int>(kMaxSteps));
  context.set_val(kDepth, jinja::mk_val<jinja::value_int>(0));
  context.set_val("range", jinja::mk_val<jinja::value_func>("range", bounded_range));
  context.set_val("raise_exception", jinja::mk_val<jinja::value_func>("raise_exception", raise));
}

}  // namespace strobe::jinja_guard
