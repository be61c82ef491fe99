// Stops or disturbs a process for a test. Every test executable links this file, and its functions
// replace the empty ones of the libraries (base/stop_point.h). The environment, read at the first
// call, selects the effect:
//
//   FORETRAIN_STOP_AT=name    the point at which to stop; `name#3` at its third passing, `name@2`
//                             only in rank 2, `name@2#3` both
//   FORETRAIN_STOP_HOW=kill   SIGKILL (default); `exit` calls _exit(1); `abort` calls abort();
//                             `pause` stops the process as SIGSTOP does; `interrupt`,
//                             `terminate` and `hangup` send it SIGINT, SIGTERM and SIGHUP
//   FORETRAIN_STOP_LOG=file   appends a line "name rank" at each passing, so that a test can find
//                             the points instead of listing them
//   FORETRAIN_FAULT=1:2:37:throw   rank, step, number of the op in the rank's step, and its fault:
//                             `throw`, `fail`, `stall`, `other-call`, `nan` or `spike`; `exit-0`
//                             and `exit-1` end the process there, as a library that calls exit does
#include "base/stop_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "runtime/run/fault_injector.h"

namespace foretrain {
namespace {

constexpr int kAnyRank = -2;

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Removes the number after `mark` from the end of `text` and returns it; `otherwise` if there is
// none.
int TakeNumber(std::string& text, char mark, int otherwise) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string::npos) return otherwise;
  int number = otherwise;
  std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
  text.erase(at);
  return number;
}

struct Settings {
  std::string name;
  int passing;
  int rank;
  std::string how;
  int log = -1;  // stays open until the process ends

  Settings() : name(Environment("FORETRAIN_STOP_AT")) {
    passing = TakeNumber(name, '#', 1);
    rank = TakeNumber(name, '@', kAnyRank);
    how = Environment("FORETRAIN_STOP_HOW");
    const std::string file = Environment("FORETRAIN_STOP_LOG");
    if (!file.empty()) log = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }
  bool active() const { return log >= 0 || !name.empty(); }
};

void Stop(const std::string& how) {
  if (how == "exit") _exit(1);
  if (how == "abort") std::abort();
  raise(how == "pause"       ? SIGSTOP
        : how == "interrupt" ? SIGINT
        : how == "terminate" ? SIGTERM
        : how == "hangup"    ? SIGHUP
                             : SIGKILL);
}

// The one fault that FORETRAIN_FAULT describes.
class AskedFault final : public FaultInjector {
 public:
  explicit AskedFault(const std::string& text) {
    std::istringstream fields(text);
    char colon = 0;
    std::string kind;
    fields >> rank_ >> colon >> step_ >> colon >> op_ >> colon >> kind;
    if (kind == "throw") fault_.kind = Fault::Kind::kThrow;
    if (kind == "fail") fault_.kind = Fault::Kind::kFail;
    if (kind == "stall") fault_.kind = Fault::Kind::kStall;
    if (kind == "other-call") fault_.kind = Fault::Kind::kOtherCall;
    if (kind == "spike") fault_ = {.kind = Fault::Kind::kValue, .value = 1000};
    if (kind == "nan") fault_ = {.kind = Fault::Kind::kValue, .value = NAN};
    if (kind == "exit-0") exit_code_ = 0;
    if (kind == "exit-1") exit_code_ = 1;
    // Else an error of the test.
    if (!fields || (fault_.kind == Fault::Kind::kNone && exit_code_ < 0)) std::abort();
  }
  Fault At(int rank, std::int64_t step, std::int32_t op) override {
    if (rank != rank_ || step != step_ || op != op_) return {};
    if (exit_code_ >= 0) _exit(exit_code_);
    return fault_;
  }

 private:
  int rank_ = -1;
  std::int64_t step_ = -1;
  std::int32_t op_ = -1;
  int exit_code_ = -1;  // -1: the process stays
  Fault fault_;
};

}  // namespace

void StopPoint(std::string_view name, int rank) {
  static const Settings settings;
  if (!settings.active()) return;
  if (settings.log >= 0) {
    // One write per line, so that lines of several processes do not mix. A failed log fails the
    // test.
    const std::string line = std::string(name) + " " + std::to_string(rank) + "\n";
    [[maybe_unused]] const ssize_t written = write(settings.log, line.data(), line.size());
  }
  if (name != settings.name) return;
  if (settings.rank != kAnyRank && settings.rank != rank) return;
  static std::atomic<int> passings{0};
  if (passings.fetch_add(1) + 1 == settings.passing) Stop(settings.how);
}

FaultInjector* AskedFaults() {
  static const std::string text = Environment("FORETRAIN_FAULT");
  if (text.empty()) return nullptr;
  static AskedFault fault(text);
  return &fault;
}

}  // namespace foretrain
