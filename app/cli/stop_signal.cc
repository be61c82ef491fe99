#include "app/cli/stop_signal.h"

#include <csignal>

namespace foretrain {
namespace {

// Written by the handler, which can be given nothing.
volatile std::sig_atomic_t stop_signal = 0;

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

// Keeps the previous handlers; the destructor restores them.
StopSignals::StopSignals() {
  stop_signal = 0;
  interrupt_ = std::signal(SIGINT, OnSignal);
  terminate_ = std::signal(SIGTERM, OnSignal);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
}

int StopSignal() { return stop_signal; }

}  // namespace foretrain
