// SIGINT and SIGTERM as a question that long work asks itself.
#pragma once

namespace foretrain {

// While one lives, the first signal is noted and the second ends the process at once. One at a
// time, made and removed by the main thread.
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
