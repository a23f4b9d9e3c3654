#include "text/jinja_engine.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <jinja/value.h>
#include <json.h>

#include <exception>
#include <utility>

#include "text/jinja_guard.h"

namespace strobe {

struct JinjaTemplate::Impl {
  std::string name;
  std::string source;
  jinja::program program;
};

namespace {

// The engine reports "...While executing X at line 1, column 2 in source:\n<picture>\nError: <why>" on many lines.
std::string one_line(const std::string& report) {
  constexpr std::string_view kWhere = "While executing ", kPicture = " in source:", kWhy = "\nError: ";
  const size_t where = report.find(kWhere);
  const size_t picture = report.find(kPicture);
  const size_t why = report.rfind(kWhy);
  if (where == std::string::npos || picture == std::string::npos || why == std::string::npos || picture < where) {
    return report;
  }
  return report.substr(where + kWhere.size(), picture - where - kWhere.size()) + ": " +
         report.substr(why + kWhy.size());
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JinjaTemplate::~JinjaTemplate() = default;

const std::string& JinjaTemplate::source() const {
  return impl_->source;
}

Result<std::unique_ptr<JinjaTemplate>> JinjaTemplate::parse(std::string source, std::string_view name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  try {
    const jinja::lexer_result tokens = jinja::lexer().tokenize(source);
    if (const std::string complaint = jinja_guard::nesting_complaint(tokens); !complaint.empty()) {
      return error("{}: {}", name, complaint);
    }
    impl->program = jinja::parse_from_tokens(tokens);
    impl->source = tokens.source;
  } catch (const std::exception& e) {
    return error("{}: {}", name, one_line(e.what()));
  }
  jinja_guard::install(impl->program);
  return std::unique_ptr<JinjaTemplate>(new JinjaTemplate(std::move(impl)));
}

Result<std::string> JinjaTemplate::render(const std::string& variables, std::optional<int64_t> now_s) const {
  try {
    jinja::context context(impl_->source);
    if (now_s) context.current_time = static_cast<std::time_t>(*now_s);
    jinja::global_from_json(context, common_json::parse(variables), false);
    jinja_guard::prepare(context);
    jinja::runtime runtime(context);
    const jinja::value results = runtime.execute(impl_->program);
    return jinja::runtime::gather_string_parts(results)->as_string().str();
  } catch (const jinja_guard::Stop& stop) {
    return error("{}", stop.message);
  } catch (const jinja::break_statement::signal&) {
    return error("{}: a break outside a loop", impl_->name);
  } catch (const jinja::continue_statement::signal&) {
    return error("{}: a continue outside a loop", impl_->name);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return error("{}: {}", impl_->name, one_line(e.what()));
  }
}

}  // namespace strobe
