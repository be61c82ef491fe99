#include "base/stop_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string>

namespace foretrain {
namespace {

constexpr int kAnyRank = -2;

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The number after `mark` at the end of `text`, which is cut off there; `otherwise` without one.
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
  raise(how == "pause" ? SIGSTOP : SIGKILL);
}

}  // namespace

void StopPoint(std::string_view name, int rank) {
  static const Settings settings;
  if (!settings.active()) return;
  if (settings.log >= 0) {
    // One write a line: lines of several processes do not mix. A failed log fails the test.
    const std::string line = std::string(name) + " " + std::to_string(rank) + "\n";
    [[maybe_unused]] const ssize_t written = write(settings.log, line.data(), line.size());
  }
  if (name != settings.name) return;
  if (settings.rank != kAnyRank && settings.rank != rank) return;
  static std::atomic<int> passings{0};
  if (passings.fetch_add(1) + 1 == settings.passing) Stop(settings.how);
}

}  // namespace foretrain
