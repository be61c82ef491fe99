// SIGINT, SIGTERM and SIGHUP as a flag that long work polls.
#pragma once

#include <array>
#include <csignal>

namespace foretrain {

// While an object lives, the first signal is noted and the second ends the process at once. Only
// one may exist at a time, made and destroyed by the main thread.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<void (*)(int), kSignals.size()> before_{};
};

// The signal that asked the process to stop since the newest StopSignals was made, or 0.
int StopSignal();
// "Ctrl-C", "SIGTERM" or "SIGHUP"; without one, "the process of another rank".
const char* NameOfStopSignal();

}  // namespace foretrain
