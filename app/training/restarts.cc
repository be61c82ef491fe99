#include "app/training/restarts.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "app/cli/stop_signal.h"
#include "app/training/child_run.h"
#include "base/units.h"
#include "runtime/checkpoint/checkpoint_folder.h"

namespace foretrain {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

// Starts the program; its input and outputs are this process's.
Result<pid_t> Start(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> pointers{const_cast<char*>(program.c_str()), const_cast<char*>("train")};
  for (const std::string& one : arguments) pointers.push_back(const_cast<char*>(one.c_str()));
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, pointers.data(), environ);
  if (error == 0) return pid;
  return Fail(ErrorCode::kResourceExhausted,
              "--restarts: starting " + program + ": " + std::strerror(error));
}

// Waits for the child and passes the first stop signal on to it. Returns its status as waitpid
// does.
int Wait(pid_t pid) {
  bool told = false;
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (StopSignal() != 0 && !told) {
      told = true;
      ::kill(pid, StopSignal());
    }
    std::this_thread::sleep_for(kLook);
  }
}

// "was ended by signal 9" or "failed with exit code 3"; empty if it did not fail.
std::string FailureOf(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == static_cast<int>(Exit::kFault)) return "failed with exit code 3";
  return "";
}

// Steps of the newest checkpoint; 0 if there is none.
std::int64_t SavedSteps(const std::string& folder) {
  PosixFileSystem files;
  const auto all = ListCheckpoints(files, folder);
  return all.has_value() && !all->empty() ? all->front().step : 0;
}

}  // namespace

// A child that fails without having saved since the last restart would fail again for ever, but
// some failures pass (a full disk, a machine out of memory), so only their number is limited.
Result<Exit> RunWithRestarts(const std::vector<std::string>& arguments, int restarts,
                             const std::string& folder) {
  FT_ASSIGN(const std::string program, OwnExecutable());
  const StopSignals signals;
  for (int done = 0;; ++done) {
    std::vector<std::string> now = arguments;
    if (done > 0) {
      std::erase_if(now, [](const std::string& one) { return one.starts_with("--resume="); });
      if (SavedSteps(folder) > 0) now.push_back("--resume=" + folder);
    }
    FT_ASSIGN(const pid_t child, Start(program, now));
    const int status = Wait(child);
    const std::string failure = FailureOf(status);
    if (failure.empty() || StopSignal() != 0) {
      if (done > 0) {
        std::fprintf(stderr, "foretrain: the training was restarted %d time%s\n", done,
                     done == 1 ? "" : "s");
      }
      return WIFEXITED(status) ? static_cast<Exit>(WEXITSTATUS(status))
                               : ExitOfSignal(StopSignal());
    }
    if (done == restarts) {
      std::fprintf(stderr,
                   "foretrain: the training %s after %d restart%s; no more were asked for\n",
                   failure.c_str(), done, done == 1 ? "" : "s");
      return Exit::kFault;
    }
    std::fprintf(stderr, "foretrain: the training %s; it starts again from step %lld (%d of %d)\n",
                 failure.c_str(), static_cast<long long>(SavedSteps(folder)), done + 1, restarts);
  }
}

}  // namespace foretrain
