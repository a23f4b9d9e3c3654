#include "tool/measured_server.h"

#include <filesystem>

#include "tool/check_options.h"
#include "tool/command_line.h"

namespace strobe::tool {
namespace {

// Visits two sets of options one after the other: first the defaults, then those to compare with them.
class DifferentFlags {
 public:
  template <class T>
  void operator()(const char* names, const T& field, const char* /*help*/) {
    const std::string value = fmt::format("{}", field);
    if (reading_defaults_) {
      defaults_.push_back(value);
      return;
    }
    if (value == defaults_[next_++]) return;
    const std::string all = names;
    arguments_.push_back(all.substr(0, all.find(',')));
    if constexpr (!std::is_same_v<T, bool>) arguments_.push_back(value);
  }
  void defaults_end() { reading_defaults_ = false; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(arguments_); }

 private:
  std::vector<std::string> defaults_;
  std::vector<std::string> arguments_;
  size_t next_ = 0;
  bool reading_defaults_ = true;
};

}  // namespace

std::vector<std::string> to_arguments(const EngineOptions& options) {
  DifferentFlags flags;
  EngineOptions defaults;
  defaults.visit(flags);
  flags.defaults_end();
  EngineOptions copy = options;
  copy.visit(flags);
  return flags.take();
}

Result<void> check(const MeasuredServerOptions& options) {
  if (!(options.timeout_seconds > 0 && options.timeout_seconds <= 1e6)) {
    return error("--timeout {}: accepted: above 0 to 1000000", options.timeout_seconds);
  }
  if (options.base_url.empty()) {
    EngineOptions engine = options.engine;
    default_to_pocket(engine);
    return check_options(engine);
  }
  STROBE_TRY(measure::parse_base_url("--base-url", options.base_url));
  const auto flags = to_arguments(options.engine);
  if (flags.empty()) return {};
  return error("{} is given with --base-url {}: a server that runs already is not changed by flags", flags[0],
               options.base_url);
}

Result<MeasuredServer> MeasuredServer::open(const MeasuredServerOptions& options, const std::string& log_path,
                                            const std::atomic<bool>& stop, const std::string& profile_dir) {
  MeasuredServer server;
  measure::Endpoint endpoint;
  if (options.base_url.empty()) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::string> arguments = to_arguments(options.engine);
    // How well the draft fits is what is measured.
    arguments.insert(arguments.end(), {"--spec-self-test", "off"});
    if (!profile_dir.empty()) arguments.insert(arguments.end(), {"--profile-dir", profile_dir});
    STROBE_ASSIGN(server.child_, measure::ChildServer::start(
                                     {.program = program, .arguments = arguments, .log_path = log_path}, &stop));
    endpoint = server.child_->endpoint();
  } else {
    STROBE_ASSIGN(endpoint, measure::parse_base_url("--base-url", options.base_url));
    endpoint.api_key = options.api_key;
  }
  measure::HttpLimits limits;
  limits.silence = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1000));
  server.client_ = std::make_unique<measure::HttpClient>(std::move(endpoint), limits, &stop);
  return server;
}

}  // namespace strobe::tool
