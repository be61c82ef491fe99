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
#include "runtime/checkpoint/checkpoint.h"

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

// Steps and ranks of the newest checkpoint.
struct Saved {
  std::int64_t steps = 0;  // 0: there is none
  int ranks = 0;           // of its plan
};
Saved NewestOf(const std::string& folder) {
  PosixFileSystem files;
  const auto newest = OpenNewest(files, folder, /*verify=*/false);
  if (!newest.has_value()) return {};
  const Manifest& manifest = newest->checkpoint.manifest();
  return {manifest.step, manifest.plan.World()};
}

// The arguments of a child that goes on from `saved`. `ranks`: 0, as before.
std::vector<std::string> ArgumentsToGoOn(const std::vector<std::string>& arguments,
                                         const std::string& folder, const Saved& saved, int ranks) {
  std::vector<std::string> now;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& one = arguments[i];
    if (one.starts_with("--resume=")) continue;
    if (ranks > 0 && (one == "--ranks" || one.starts_with("--ranks="))) {
      if (one == "--ranks") ++i;  // its value
      continue;
    }
    now.push_back(one);
  }
  if (saved.steps == 0) return now;
  if (ranks > 0) {
    now.push_back("--ranks=" + std::to_string(ranks));
    now.push_back("--replan");
  }
  now.push_back("--resume=" + folder);
  return now;
}

}  // namespace

// A child that fails without having saved since the last restart may fail again for ever, but some
// failures pass (a full disk, a machine out of memory), so only their number is limited.
Result<Exit> RunWithRestarts(const std::vector<std::string>& arguments,
                             const RestartOptions& options) {
  FT_ASSIGN(const std::string program, OwnExecutable());
  const StopSignals signals;
  Saved before;   // when the last child started
  int ranks = 0;  // 0: as many as the arguments say
  for (int done = 0;; ++done) {
    FT_ASSIGN(
        const pid_t child,
        Start(program,
              done == 0 ? arguments : ArgumentsToGoOn(arguments, options.folder, before, ranks)));
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
    if (done == options.restarts) {
      std::fprintf(stderr,
                   "foretrain: the training %s after %d restart%s; no more were asked for\n",
                   failure.c_str(), done, done == 1 ? "" : "s");
      return Exit::kFault;
    }
    const Saved saved = NewestOf(options.folder);
    const int last = ranks > 0 ? ranks : saved.ranks;
    if (options.fewest_ranks > 0 && done > 0 && saved.steps == before.steps &&
        last > options.fewest_ranks) {
      ranks = last - 1;
    }
    before = saved;
    std::fprintf(
        stderr, "foretrain: the training %s; it starts again from step %lld%s (%d of %d)\n",
        failure.c_str(), static_cast<long long>(saved.steps),
        ranks > 0 ? fmt::format(" with {} rank{}", ranks, ranks == 1 ? "" : "s").c_str() : "",
        done + 1, options.restarts);
  }
}

}  // namespace foretrain
