#include "measure/child_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "base/failure.h"

namespace strobe::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kEndPatience = std::chrono::seconds(10);
constexpr int kPollMs = 50;

// Between fork and exec only calls that are safe there.
[[noreturn]] void become(const char* program, char* const* arguments, int log, int output, pid_t parent) {
  setpgid(0, 0);  // Ctrl-C is for us; we end the server
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, arguments);
  _exit(127);
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return "ended";
}

}  // namespace

std::optional<uint16_t> port_in(std::string_view printed) {
  constexpr std::string_view kMark = " on http://";
  const size_t mark = printed.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view rest = printed.substr(mark + kMark.size());
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const size_t colon = rest.substr(0, end).rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  uint16_t port = 0;
  const auto parsed = std::from_chars(rest.data() + colon + 1, rest.data() + end, port);
  return parsed.ec == std::errc() && parsed.ptr == rest.data() + end && port != 0 ? std::optional(port) : std::nullopt;
}

std::string last_lines(const std::string& path, size_t lines) {
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > lines) last.pop_front();
  }
  std::string text;
  for (const std::string& line : last) text += "  " + line + "\n";
  return text;
}

Result<std::unique_ptr<ChildServer>> ChildServer::start(const ChildServerOptions& options,
                                                        const std::atomic<bool>* stop) {
  const int log = open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) return error("{}: cannot be written: {}", options.log_path, std::strerror(errno));
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    close(log);
    fail("pipe: {}", std::strerror(errno));
  }
  std::vector<std::string> words = {options.program, "serve"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  for (const char* word : {"--host", "127.0.0.1", "--port", "0"}) words.emplace_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::unique_ptr<ChildServer> server(new ChildServer());
  const pid_t parent = getpid();
  server->process_ = fork();
  if (server->process_ == 0) become(options.program.c_str(), arguments.data(), log, pipe_ends[1], parent);
  const int fork_error = errno;
  close(log);
  close(pipe_ends[1]);
  server->output_ = pipe_ends[0];
  if (server->process_ < 0) fail("fork: {}", std::strerror(fork_error));
  STROBE_TRY(server->wait_until_ready(options, stop));
  return server;
}

Result<void> ChildServer::wait_until_ready(const ChildServerOptions& options, const std::atomic<bool>* stop) {
  const auto deadline = Clock::now() + options.ready_limit;
  std::string printed;
  std::optional<uint16_t> port;
  // The line with the address comes after the first token, so that a server that printed it is ready.
  while (!(port = port_in(printed))) {
    if (stop != nullptr && *stop) return error("stopped while the server was starting");
    if (Clock::now() >= deadline) {
      return error("the server was not ready within {} s; its log, {}, ends:\n{}", options.ready_limit.count() / 1000,
                   options.log_path, last_lines(options.log_path, 10));
    }
    pollfd wait{.fd = output_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, kPollMs) <= 0) continue;
    std::array<char, 4096> bytes{};
    const ssize_t count = read(output_, bytes.data(), bytes.size());
    if (count > 0) {
      printed.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      waitpid(process_, &end_status_, 0);
      process_ = -1;
      return error("the server {} before it was ready; its log, {}, ends:\n{}", how_it_ended(end_status_),
                   options.log_path, last_lines(options.log_path, 10));
    }
  }
  endpoint_ = {.host = "127.0.0.1", .port = *port};
  return {};
}

bool ChildServer::running() {
  return process_ > 0 && waitpid(process_, &end_status_, WNOHANG) == 0;
}

ChildServer::~ChildServer() {
  if (running()) {
    kill(process_, SIGTERM);
    const auto deadline = Clock::now() + kEndPatience;
    while (running()) {
      if (Clock::now() >= deadline) {
        kill(process_, SIGKILL);
        waitpid(process_, &end_status_, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  if (output_ >= 0) close(output_);
}

}  // namespace strobe::measure
