#include "measure/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/failure.h"

namespace strobe::measure {

int run_program(std::vector<std::string> words, const std::string& folder, const std::atomic<bool>& stop) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) fail("fork: {}", std::strerror(errno));
  if (process == 0) {  // only what is safe between fork and exec
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (getppid() == parent && chdir(folder.c_str()) == 0) execv(arguments[0], arguments.data());
    _exit(127);
  }
  bool asked = false;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (stop && !asked) {
      kill(process, SIGTERM);
      asked = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace strobe::measure
