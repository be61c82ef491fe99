#include "app/cli/stop_signal.h"

#include <atomic>
#include <csignal>
#include <cstddef>

namespace foretrain {
namespace {

// Written by the handler, which can be given nothing, and read by the ranks' threads.
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "the handler must not wait for a lock");

// The first signal asks for a stop at the next step boundary. The second restores the default
// action and raises it, so that a run that hangs can always be ended.
extern "C" void OnSignal(int signal) {
  if (stop_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  stop_signal = signal;
}

}  // namespace

// Keeps the previous handlers; the destructor restores them. A hang-up that `nohup` ignores stays
// ignored.
StopSignals::StopSignals() {
  stop_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    before_[i] = std::signal(kSignals[i], OnSignal);
    if (kSignals[i] == SIGHUP && before_[i] == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
}

int StopSignal() { return stop_signal; }

const char* NameOfStopSignal() {
  switch (stop_signal) {
    case 0:
      return "the process of another rank";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "Ctrl-C";
  }
}

}  // namespace foretrain
