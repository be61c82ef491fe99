// SIGINT and SIGTERM as a flag that long work polls.
#pragma once

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
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

// The signal that asked the process to stop since the newest StopSignals was made, or 0.
int StopSignal();

}  // namespace foretrain
