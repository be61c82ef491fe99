#include "app/stop_signal.h"

#include <csignal>

namespace foretrain {
namespace {

// Written by the handler, which can be given nothing.
volatile std::sig_atomic_t stop_signal = 0;

extern "C" void OnSignal(int signal) {
  if (stop_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  stop_signal = signal;
}

}  // namespace

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
